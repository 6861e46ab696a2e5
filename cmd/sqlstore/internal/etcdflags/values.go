package etcdflags

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
)

// standard returns a value as package flag makes it, with its syntax and its errors.
func standard(define func(fs *flag.FlagSet, name string)) flag.Value {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	define(fs, "value")
	return fs.Lookup("value").Value
}

func text(byDefault string) flag.Value {
	return standard(func(fs *flag.FlagSet, name string) { fs.String(name, byDefault, "") })
}

func boolean(byDefault bool) flag.Value {
	return standard(func(fs *flag.FlagSet, name string) { fs.Bool(name, byDefault, "") })
}

func integer(byDefault int) flag.Value {
	return standard(func(fs *flag.FlagSet, name string) { fs.Int(name, byDefault, "") })
}

func integer64(byDefault int64) flag.Value {
	return standard(func(fs *flag.FlagSet, name string) { fs.Int64(name, byDefault, "") })
}

func unsigned(byDefault uint) flag.Value {
	return standard(func(fs *flag.FlagSet, name string) { fs.Uint(name, byDefault, "") })
}

func unsigned64(byDefault uint64) flag.Value {
	return standard(func(fs *flag.FlagSet, name string) { fs.Uint64(name, byDefault, "") })
}

func duration(byDefault time.Duration) flag.Value {
	return standard(func(fs *flag.FlagSet, name string) { fs.Duration(name, byDefault, "") })
}

// unsigned32 is a number of 32 bits.
type unsigned32 uint32

func (n *unsigned32) Set(s string) error {
	v, err := strconv.ParseUint(s, 0, 32)
	if err != nil {
		return err
	}
	*n = unsigned32(v)
	return nil
}

func (n *unsigned32) String() string { return strconv.FormatUint(uint64(*n), 10) }

// list holds values that commas separate.
type list []string

func newList(values ...string) *list { return (*list)(&values) }

func (l *list) Set(s string) error {
	*l = strings.Split(s, ",")
	return nil
}

func (l *list) String() string { return strings.Join(*l, ",") }

// set is a list without repetitions, in order.
type set struct{ list }

func newSet(values ...string) *set { return &set{values} }

func (s *set) Set(text string) error {
	_ = s.list.Set(text)
	slices.Sort(s.list)
	s.list = slices.Compact(s.list)
	return nil
}

// urls are URLs in etcd's form, without repetitions, in order.
type urls struct {
	list
	besides string // a text that is accepted, too
}

func newURLs(values ...string) *urls { return &urls{list: values} }

func (u *urls) Set(s string) error {
	if s == u.besides {
		u.list = nil
		if s != "" {
			u.list = list{s}
		}
		return nil
	}
	parsed, err := types.NewURLs(strings.Split(s, ","))
	if err != nil {
		return err
	}
	u.list = slices.Compact(parsed.StringSlice())
	return nil
}

// choice is one of several texts.
type choice struct {
	value string
	among []string
}

func newChoice(among ...string) *choice { return &choice{among[0], among} }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.among, s) {
		return fmt.Errorf("it is none of %s", strings.Join(c.among, ", "))
	}
	c.value = s
	return nil
}

func (c *choice) String() string { return c.value }

// choices are several texts of a few.
type choices struct {
	list
	among []string
}

func (c *choices) Set(s string) error {
	for value := range strings.SplitSeq(s, ",") {
		if !slices.Contains(c.among, value) {
			return fmt.Errorf("invalid value %q: it is none of %s", value, strings.Join(c.among, ", "))
		}
	}
	return c.list.Set(s)
}

// ignored is a flag of an old etcd: with or without a value, it changes nothing.
type ignored struct{}

func (ignored) Set(string) error { return nil }
func (ignored) String() string   { return "" }
func (ignored) IsBoolFlag() bool { return true }
