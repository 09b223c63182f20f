// Package app is the window: the page in a web view of the system, on a server
// inside the program. It is the only package that imports Wails, in files behind
// the build tags that Wails sets; other builds have only the command line.
package app
