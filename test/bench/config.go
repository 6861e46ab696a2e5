package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// config is the configuration of one run.
type config struct {
	objects     int   // of the size being measured
	sizes       []int // all sizes, measured one after the other
	value       int   // bytes
	clients     int
	conns       int
	listClients int
	watchers    int
	walkPages   int
	pairs       int
	restarts    int
	span        time.Duration
	settle      time.Duration
	rate        float64
	auth        bool

	retention, compactionSpan time.Duration // see compactionPhases

	only       []string
	servers    []*server
	phases     map[string]bool // nil = all
	datastores []string        // of serverNames
	dir        string          // databases and binaries
	json       string
	bare       string
	churn      int
	profile    string
}

// serverNames are the servers compared on each kind of datastore.
var serverNames = map[string][]string{
	"sqlite":   {"sqlstore", "etcd", "kine", "bare"},
	"postgres": {onPostgres, "etcd", kinePostgres, kinePooled, "bare", onPostgres + "-2", onPostgres + "-3"},
}

func parseFlags(args []string) (*config, error) {
	c := &config{settle: 150 * time.Millisecond}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	sizes := f.String("objects", "20000", "objects stored before measuring; several sizes, with commas, are measured "+
		"one after the other")
	datastores := f.String("datastore", "", "compare the servers on sqlite (the default), or on postgres, where "+
		"sqlstore has one, two and three replicas, or on both, with a comma (the default of -short)")
	f.IntVar(&c.value, "value", 1024, "bytes in a value")
	f.IntVar(&c.clients, "clients", 64, "concurrent clients")
	f.IntVar(&c.conns, "conns", 8, "connections that the clients share")
	f.IntVar(&c.listClients, "list-clients", 4, "concurrent clients that walk pages")
	f.IntVar(&c.watchers, "watchers", 10, "watchers of all objects in the watch phase, each with a stream of its own")
	f.IntVar(&c.walkPages, "walk-pages", 0, "pages after which a walk starts again; 0 = the whole list up to 100,000 "+
		"objects, otherwise 200")
	f.IntVar(&c.pairs, "pairs", 5, "slices of each phase on each server, in alternating order")
	f.IntVar(&c.restarts, "restarts", 2, "timed restarts after filling, alternately after SIGTERM and SIGKILL")
	f.DurationVar(&c.span, "slice", 2*time.Second, "length of a slice")
	f.Float64Var(&c.rate, "rate", 1000, "operations per second in the phases at a fixed rate; 0 = omit those")
	f.DurationVar(&c.retention, "retention", 5*time.Second,
		"what automatic compaction keeps in the phase compaction, which runs only if -only names it")
	f.DurationVar(&c.compactionSpan, "compaction-slice", 20*time.Second, "length of a slice of the phase compaction")
	f.BoolVar(&c.auth, "auth", false, "enable authentication on etcd and sqlstore; the clients are a user with a role "+
		"that permits all keys, by token")
	only := f.String("only", "", "phases and servers to measure, with commas, e.g. create,page,etcd,bare; name=/path "+
		"sets a server's binary, and any other name is another build of sqlstore")
	short := f.Bool("short", false, "a minute or two: few objects, one pair, all servers; shows that it works, "+
		"not how fast")
	f.StringVar(&c.json, "json", "", "file for the raw figures of every slice")
	f.IntVar(&c.churn, "churn", 16000, "updates after filling, so that logs hold transactions of the usual size and "+
		"not those of the filling")
	f.StringVar(&c.profile, "cpuprofile", "", "file for a CPU profile of the load generator itself")
	f.StringVar(&c.dir, "dir", "", "directory for databases and binaries, on the disk to be measured (default: a "+
		"temporary one)")
	f.StringVar(&c.bare, "serve-bare", "", "internal: run the bare server on this address")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	for s := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(strings.ReplaceAll(s, "_", ""))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-objects: %q is not a number of objects", s)
		}
		c.sizes = append(c.sizes, n)
	}
	c.objects = c.sizes[0]
	if *short {
		c.sizes, c.objects, c.pairs, c.span, c.rate, c.churn = []int{3000}, 3000, 1, 250*time.Millisecond, 500, 0
	}
	switch {
	case *datastores != "":
	case *short:
		*datastores = "sqlite,postgres"
	default:
		*datastores = "sqlite"
	}
	for d := range strings.SplitSeq(*datastores, ",") {
		if serverNames[d] == nil {
			return nil, fmt.Errorf("-datastore: %q is neither sqlite nor postgres", d)
		}
		c.datastores = append(c.datastores, d)
	}
	if *only != "" {
		c.only = strings.Split(*only, ",")
	}
	return c, nil
}

// choose sorts -only into phases and servers.
func (c *config) choose() error {
	known := map[string]bool{}
	for _, p := range c.allPhases() {
		known[p.name] = true
	}
	bins := map[string]string{"sqlstore": os.Getenv("SQLSTORE_BIN")}
	var names []string
	for _, word := range c.only {
		name, bin, given := strings.Cut(word, "=")
		switch {
		case known[word]:
			if c.phases == nil {
				c.phases = map[string]bool{}
			}
			c.phases[word] = true
			if word == compactionPhase {
				c.phases[steadyPhase] = true
			}
		case given || slices.Contains(serverNames["sqlite"], word) || slices.Contains(serverNames["postgres"], word):
			names = append(names, name)
			if given {
				path, err := filepath.Abs(bin)
				if err != nil {
					return err
				}
				bins[name] = path
			}
		default:
			return fmt.Errorf("-only: %q is neither a phase nor a server", word)
		}
	}
	if names == nil {
		for _, d := range c.datastores {
			names = append(names, serverNames[d]...)
		}
		slices.Sort(names)
		names = slices.Compact(names)
	}
	for _, name := range names {
		s, err := newServer(name, bins[name], c)
		if err != nil {
			return err
		}
		c.servers = append(c.servers, s)
	}
	return nil
}

func (c *config) wants(p *phase) bool { return c.phases == nil && !p.asked || c.phases[p.name] }

// pagesInWalk is the number of pages of one walk through the list.
func (c *config) pagesInWalk() int {
	all := (c.objects + pageSize - 1) / pageSize
	switch {
	case c.walkPages > 0:
		return min(all, c.walkPages)
	case c.objects > 100_000:
		return min(all, 200)
	default:
		return all
	}
}
