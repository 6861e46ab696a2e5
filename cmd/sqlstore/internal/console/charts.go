package console

import (
	"math"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/recent"
)

// chart is one of the overview's charts.
type chart struct {
	ID, Title, Unit string
	Curves          []curve
}

// curve is one of a chart's curves. Text is its current value.
type curve struct {
	Series      recent.Series
	Label, Text string
}

// The units of charts. The script overview.js formats values in the same way.
const (
	perSecond = "per-second"
	seconds   = "seconds"
	bytesUnit = "bytes"
	number    = "number"
)

// charts returns the charts with the values of the newest sample.
func charts(hour recent.Hour) []chart {
	all := []chart{
		{"load", "Per second", perSecond, []curve{{recent.Writes, "writes", ""}, {recent.Reads, "reads", ""}}},
		{"commits", "Commits", seconds, []curve{{recent.CommitP50, "p50", ""}, {recent.CommitP99, "p99", ""}}},
		{"reads", "Reads", seconds, []curve{{recent.ReadP50, "p50", ""}, {recent.ReadP99, "p99", ""}}},
		{"watches", "Watches", number, []curve{{recent.Watches, "open", ""}, {recent.SlowWatches, "slow", ""}}},
		{"size", "Database", bytesUnit, []curve{
			{recent.Total, "size", ""}, {recent.WAL, "WAL", ""}, {recent.Quota, "quota", ""},
		}},
		{"memory", "Memory", bytesUnit, []curve{{recent.Memory, "resident", ""}}},
	}
	latest, _ := hour.Latest()
	for _, c := range all {
		for i := range c.Curves {
			v := &c.Curves[i]
			v.Text = valueText(latest, v.Series, c.Unit)
		}
	}
	return all
}

// valueText returns a value of a sample for people, "–" if there is none.
func valueText(s *recent.Sample, series recent.Series, unit string) string {
	if s != nil {
		if v, ok := s.Value(series); ok {
			return format(v, unit)
		}
	}
	return "–"
}

// format returns a value for people.
func format(v float64, unit string) string {
	switch {
	case unit == perSecond && v != 0 && v < 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case unit == seconds && v < 1:
		return digits(v*1000) + " ms"
	case unit == seconds:
		return digits(v) + " s"
	case unit == bytesUnit:
		return humanize.IBytes(uint64(max(v, 0)))
	}
	return humanize.Comma(int64(math.Round(v)))
}

// digits returns a number with at most two decimals and, if it is large enough, three digits.
func digits(v float64) string {
	switch {
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// about returns a long duration roughly, in its largest unit.
func about(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Hour:
		return "less than an hour"
	case d < 2*day:
		return "about " + plural(int(d.Round(time.Hour)/time.Hour), "hour")
	}
	return "about " + plural(int(d.Round(day)/day), "day")
}

func plural(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return strconv.Itoa(n) + " " + unit + "s"
}
