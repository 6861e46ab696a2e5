package main

import "testing"

func TestByteSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-1": -1, "8589934592": 8 << 30, "8GiB": 8 << 30, "8gib": 8 << 30, "8 Gi": 8 << 30, "500MB": 500e6,
		"500M":   500e6,
		"1.5KiB": 1536, "2T": 2e12, "9223372036854775807": 1<<63 - 1,
	} {
		var got int64
		if err := (byteSize{&got}).Set(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "8XiB", "GiB", "8GiB2", "9000000TiB", "nan", "inf", "NaNGiB"} {
		got := int64(7)
		if err := (byteSize{&got}).Set(text); err == nil || got != 7 {
			t.Errorf("%q is %d, %v", text, got, err)
		}
	}
}
