package console

import (
	"testing"
	"time"
)

func TestFormat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v          float64
		unit, want string
	}{
		{0, perSecond, "0"},
		{0.25, perSecond, "0.2"},
		{9.96, perSecond, "10.0"},
		{1234.5, perSecond, "1,235"},
		{0.0000512, seconds, "0.05 ms"},
		{0.01234, seconds, "12.3 ms"},
		{0.25, seconds, "250 ms"},
		{2.5, seconds, "2.50 s"},
		{1023, bytesUnit, "1023 B"},
		{1536, bytesUnit, "1.5 KiB"},
		{2 << 30, bytesUnit, "2.0 GiB"},
		{64 << 20, bytesUnit, "64 MiB"},
		{1234567, number, "1,234,567"},
	} {
		if got := format(c.v, c.unit); got != c.want {
			t.Errorf("%g %s is %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

func TestAbout(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                "less than an hour",
		59 * time.Minute: "less than an hour",
		time.Hour:        "about 1 hour",
		47 * time.Hour:   "about 47 hours",
		50 * time.Hour:   "about 2 days",
		700 * time.Hour:  "about 29 days",
	} {
		if got := about(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}
