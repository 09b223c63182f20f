// Command godwit is the headless binary: every command but the window.
package main

import (
	"os"

	"godwit/app/cli"
	"godwit/frontend"
)

func main() { os.Exit(cli.Main(frontend.Dist(), os.Args[1:])) }
