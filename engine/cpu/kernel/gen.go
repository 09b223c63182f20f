package kernel

//go:generate go run -C gen .
