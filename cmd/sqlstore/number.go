package main

import "fmt"

// number returns a number of things, such as "1 key" or "2 keys".
func number[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
