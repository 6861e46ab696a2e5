package main

import (
	"reflect"
	"slices"
	"testing"

	"github.com/spf13/pflag"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/internal/setting"
)

// withoutFlags are fields that the command sets by itself.
var withoutFlags = []string{"Logger", "Jitter", "EtcdReady", "Console"}

// Each field of the configuration has a flag, which messages name instead of the field.
func TestFlagsOfFields(t *testing.T) {
	setting.UseFlags(flagOf)
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	(&settings{}).register(flags)
	left := map[string]bool{}
	for field := range flagOf {
		left[field] = true
	}
	var check func(prefix string, in reflect.Type)
	check = func(prefix string, in reflect.Type) {
		for f := range in.Fields() {
			field := prefix + f.Name
			switch {
			case slices.Contains(withoutFlags, f.Name):
			case f.Type.Kind() == reflect.Struct:
				check(field+".", f.Type)
			case flags.Lookup(flagOf[field]) == nil:
				t.Errorf("%s has the flag %q, which serve lacks", field, flagOf[field])
			case setting.Name(field) != "--"+flagOf[field]:
				t.Errorf("%s is named %s", field, setting.Name(field))
			}
			delete(left, field)
		}
	}
	check("", reflect.TypeFor[sqlstore.Config]())
	if len(left) != 0 {
		t.Errorf("sqlstore.Config lacks %v", left)
	}
}
