// Godwit with its window; app/cmd/godwit is the same without one.
package main

import (
	"os"

	"godwit/app"
	"godwit/frontend"
)

func main() { os.Exit(app.Main(frontend.Dist(), os.Args[1:])) }
