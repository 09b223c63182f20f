package kv

// removed maps names of formats that their authors withdrew, or that are not cache
// types, to the text to show.
var removed = map[string]string{
	"tbqx3":  "removed by its author, use amx3",
	"tq3_1s": "a weight format, not a cache type; tq3_0 is the cache type",
	"tq4_1s": "a weight format, not a cache type; tbq4 is a 4-bit cache type",
}
