package attn

//go:generate go run -C gen .
