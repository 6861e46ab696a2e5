package main

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/pflag"
)

// byteSize is the value of a flag: a number of bytes, or a size such as 8GiB or 500MB.
type byteSize struct{ to *int64 }

var (
	errByteSize = errors.New("write a number of bytes, or a size with a unit: 8GiB, 512MiB, 500MB")
	byteUnits   = map[string]float64{
		"": 1, "b": 1,
		"k": 1e3, "kb": 1e3, "m": 1e6, "mb": 1e6, "g": 1e9, "gb": 1e9, "t": 1e12, "tb": 1e12,
		"ki": 1 << 10, "kib": 1 << 10, "mi": 1 << 20, "mib": 1 << 20, "gi": 1 << 30, "gib": 1 << 30, "ti": 1 << 40,
		"tib": 1 << 40,
	}
)

// bytesVar defines a flag for a number of bytes.
func bytesVar(f *pflag.FlagSet, to *int64, name string, byDefault int64, usage string) {
	*to = byDefault
	f.Var(byteSize{to}, name, usage)
}

// Set implements [pflag.Value].
func (b byteSize) Set(s string) error {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		*b.to = n
		return nil
	}
	number := strings.TrimRightFunc(s, func(r rune) bool { return unicode.IsLetter(r) || r == ' ' })
	unit, known := byteUnits[strings.ToLower(strings.TrimSpace(s[len(number):]))]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !known || math.IsNaN(n) || math.Abs(n*unit) >= math.MaxInt64 {
		return errByteSize
	}
	*b.to = int64(n * unit)
	return nil
}

// String implements [pflag.Value].
func (b byteSize) String() string {
	if b.to == nil { // pflag calls this on a zero value
		return "0"
	}
	return strconv.FormatInt(*b.to, 10)
}

// Type implements [pflag.Value].
func (byteSize) Type() string { return "bytes" }
