package etcdflags

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/yamlfile"
)

// sections are the keys of the file that hold further keys, and the flags of those whose names differ. Where etcd has
// no flag, the flag is serve's.
var sections = map[string]map[string]string{
	"client-transport-security": {
		"cert-file": "cert-file", "key-file": "key-file", "client-cert-file": "client-cert-file",
		"client-key-file": "client-key-file", "client-cert-auth": "client-cert-auth",
		"trusted-ca-file": "trusted-ca-file", "auto-tls": "auto-tls",
		"allowed-hostname": "client-cert-allowed-hostname",
		"allowed-cn":       "client-cert-allowed-cn", "skip-client-san-verification": "",
	},
	"peer-transport-security": {
		"cert-file": "peer-cert-file", "key-file": "peer-key-file", "client-cert-file": "peer-client-cert-file",
		"client-key-file": "peer-client-key-file", "client-cert-auth": "peer-client-cert-auth",
		"trusted-ca-file": "peer-trusted-ca-file", "auto-tls": "peer-auto-tls",
		"allowed-cn": "peer-cert-allowed-cn", "allowed-hostname": "peer-cert-allowed-hostname",
		"skip-client-san-verification": "peer-skip-client-san-verification",
	},
	"socket-options": {"reuse-port": "socket-reuse-port", "reuse-address": "socket-reuse-address"},
}

// inSections are the flags that the file has only in a section, and notInFile those that it has not at all.
var (
	inSections = func() map[string]bool {
		flags := map[string]bool{}
		for _, keys := range sections {
			for _, name := range keys {
				flags[name] = true
			}
		}
		return flags
	}()
	notInFile = map[string]bool{
		"config-file": true, "version": true, "raft-read-timeout": true, "raft-write-timeout": true,
		"discovery-fallback": true, "discovery-endpoints": true, "discovery-token": true,
		"client-crl-file": true, "peer-crl-file": true,
	}
)

// keepDefault are the keys whose empty values mean the default.
var keepDefault = map[string]bool{
	"listen-peer-urls": true, "listen-client-urls": true, "listen-client-http-urls": true,
	"listen-metrics-urls": true, "initial-advertise-peer-urls": true, "advertise-client-urls": true, "cors": true,
	"host-whitelist": true, "initial-cluster-state": true,
}

// readFile reads the configuration file. Like etcd, it ignores etcd's flags and variables then.
func (o *Options) readFile() error {
	text, err := os.ReadFile(o.file)
	if err != nil {
		return fmt.Errorf("%w: read the configuration file: %w", ErrSettings, err)
	}
	o.forget()
	values, err := yamlfile.Parse(text)
	if err != nil {
		return fmt.Errorf("%w: configuration file %s: %w", ErrSettings, o.file, err)
	}
	if err := o.apply(values); err != nil {
		return fmt.Errorf("configuration file %s: %w", o.file, err)
	}
	o.note(slog.LevelInfo, "loaded server configuration, other configuration command line flags and environment "+
		"variables will be ignored if provided", "path", o.file)
	return nil
}

// forget puts etcd's flags back to their defaults.
func (o *Options) forget() {
	fresh := newOptions(nil)
	for name := range o.uses {
		o.flags.Lookup(name).Value = fresh.flags.Lookup(name).Value
		delete(o.given, name)
	}
}

func (o *Options) apply(values map[string]yaml.Node) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(values)) {
		node := values[key]
		_, etcds := o.uses[key]
		_, own := o.own[key]
		switch names, section := sections[key]; {
		case section:
			errs = append(errs, o.applySection(key, names, &node))
		case key == "discovery-config":
			errs = append(errs, o.applyDiscovery(&node))
		case etcds && !inSections[key] && !notInFile[key]:
			errs = append(errs, o.set(key, key, &node))
		case own:
			errs = append(errs, o.set(key, key, &node))
		default:
			o.note(slog.LevelWarn, "unrecognized key of the configuration file", "key", key, "line", node.Line)
		}
	}
	return errors.Join(errs...)
}

// applyDiscovery notes whether the file asks for discovery, which is refused.
func (o *Options) applyDiscovery(node *yaml.Node) error {
	var d struct {
		Token  string `yaml:"token"`
		Client struct {
			Endpoints []string `yaml:"endpoints"`
		} `yaml:"client"`
	}
	if err := node.Decode(&d); err != nil {
		return fmt.Errorf("%w: line %d: invalid discovery-config", ErrSettings, node.Line)
	}
	if d.Token == "" && len(d.Client.Endpoints) == 0 {
		return nil
	}
	o.given["discovery-token"] = true
	return o.flags.Set("discovery-token", "of the file")
}

func (o *Options) applySection(section string, names map[string]string, node *yaml.Node) error {
	if node.Tag == "!!null" {
		return nil
	}
	values := map[string]yaml.Node{}
	if err := node.Decode(&values); err != nil {
		return fmt.Errorf("%w: line %d: invalid %s", ErrSettings, node.Line, section)
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values[key]
		name, known := names[key]
		switch {
		case !known:
			o.note(slog.LevelWarn, "unrecognized key of the configuration file", "key", section+"."+key, "line",
				value.Line)
		case name != "":
			errs = append(errs, o.set(section+"."+key, name, &value))
		case value.Value != "" && value.Value != "false" || len(value.Content) > 0:
			o.note(slog.LevelWarn, "key of the configuration file without effect", "key", section+"."+key, "line",
				value.Line)
		}
	}
	return errors.Join(errs...)
}

// set sets a flag to the value of a key: a scalar, or a list of scalars. For serve's own flags, the command line and
// variables take precedence.
func (o *Options) set(key, name string, node *yaml.Node) error {
	own, is := o.own[name]
	if is && o.given[name] {
		return nil
	}
	if node.Tag == "!!null" && (!is || own.IgnoresEmpty) ||
		node.Value == "" && node.Kind == yaml.ScalarNode && keepDefault[name] {
		return nil
	}
	if list, ok := o.flags.Lookup(name).Value.(interface{ Replace(values []string) error }); ok &&
		node.Kind == yaml.SequenceNode {
		var values []string // which may contain commas
		if err := errors.Join(node.Decode(&values), list.Replace(values)); err != nil {
			return fmt.Errorf("%w: line %d: %s: %w", ErrSettings, node.Line, key, err)
		}
		o.given[name] = true
		return nil
	}
	value, err := scalar(node)
	var on bool
	if b, ok := o.flags.Lookup(name).Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() &&
		node.Decode(&on) == nil { // also yes, on and so on
		value = strconv.FormatBool(on)
	}
	if err == nil {
		err = o.flags.Set(name, o.withUnit(name, value))
	}
	if err != nil {
		return fmt.Errorf("%w: line %d: %s: %w", ErrSettings, node.Line, key, err)
	}
	o.given[name] = true
	return nil
}

// withUnit adds the unit of a duration in the file, where it is a number of nanoseconds.
func (o *Options) withUnit(name, value string) string {
	getter, ok := o.flags.Lookup(name).Value.(flag.Getter)
	if !ok {
		return value
	}
	_, isDuration := getter.Get().(time.Duration)
	if _, err := strconv.ParseInt(value, 10, 64); err != nil || !isDuration {
		return value
	}
	return value + "ns"
}

// scalar returns a node's value as a flag takes it.
func scalar(node *yaml.Node) (string, error) {
	switch node.Kind {
	case yaml.ScalarNode:
		if node.Tag == "!!null" {
			return "", nil
		}
		return node.Value, nil
	case yaml.SequenceNode:
		var values []string
		if err := node.Decode(&values); err != nil {
			return "", err
		}
		return strings.Join(values, ","), nil
	}
	return "", errors.New("takes a plain value or a list")
}
