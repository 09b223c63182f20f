package attn

//go:generate go run -C gen .
//go:generate go run ./genneon
