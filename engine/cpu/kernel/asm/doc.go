// Package asm holds the assembly of package kernel and its Go declarations, all
// generated. Package kernel checks lengths and chooses a kernel before it calls one;
// nothing else may call them.
//
// A name ends in the instructions that the kernel needs: AVX512, AVX2, NEON or Dot
// (NEON with dot products).
package asm

//go:generate go run -C ../gen .
//go:generate go run ../genneon
