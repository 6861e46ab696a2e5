package pages

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// Setup is what a suite provides to its blocks.
type Setup struct {
	// Programs are the paths of programs that blocks may call by name, in addition to the machine's and sqlstore.
	Programs map[string]string
	// Dir is where the shell starts; "" is an empty directory.
	Dir string
	// Replace makes further replacements in blocks; may be nil.
	Replace func(text string) string
	// Server starts a sqlstore at the default address before a page's first block.
	Server bool
}

// Run runs the blocks of all pages that belong to the suite, each page as a subtest. In them
//
//   - 127.0.0.1:PORT becomes a free port, the same one throughout a page;
//   - tools that are given no address use the replacement of 127.0.0.1:2379;
//   - /var/lib/sqlstore, /var/lib/etcd, /etc/sqlstore and /backup lie in the test's directory;
//   - postgres://...@localhost/ is a separate Postgres for the page;
//   - git clones this repository.
func Run(t *testing.T, suite string, setup Setup) {
	ran := false
	for _, p := range All(t) {
		blocks := slices.DeleteFunc(p.Blocks(), func(b Block) bool { return b.Suite != suite || !b.Runs() })
		if len(blocks) == 0 {
			continue
		}
		ran = true
		t.Run(filepath.Base(p.Name), func(t *testing.T) { runPage(t, blocks, setup) })
	}
	if !ran {
		t.Fatalf("no page has a block of the suite %s", suite)
	}
}

// page is a run of one page's blocks.
type page struct {
	t        *testing.T
	dir      string // of everything that the page writes
	work     string // where its shells start
	replace  func(string) string
	ports    map[string]string
	postgres *pgserver.Server
	shell    *shell
}

// program calls a program by its path, without the page's defaults that the arguments set themselves: etcdctl refuses
// endpoints from both a flag and the environment, and the environment takes precedence over a file's settings.
const program = `#!/bin/sh
case " $* " in *" --endpoints"*) unset ETCDCTL_ENDPOINTS ;; esac
case " $* " in *" serve "*) unset SQLSTORE_ENDPOINT ;; *) unset SQLSTORE_LISTEN_CLIENT_URLS ;; esac
case " $* " in *" --config-file "*) unset SQLSTORE_LISTEN_CLIENT_URLS ;; esac
exec '%s' "$@"
`

func runPage(t *testing.T, blocks []Block, setup Setup) {
	p := &page{t: t, dir: t.TempDir(), work: setup.Dir, replace: setup.Replace, ports: map[string]string{}}
	if p.work == "" {
		p.work = filepath.Join(p.dir, "work")
	}
	programs := map[string]string{"sqlstore": launch.Binary(t)}
	for name, path := range setup.Programs {
		programs[name] = path
	}
	for _, dir := range []string{"bin", "work", "var/lib/sqlstore", "etc/sqlstore", "backup"} {
		if err := os.MkdirAll(filepath.Join(p.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, path := range programs {
		if err := os.WriteFile(filepath.Join(p.dir, "bin", name), fmt.Appendf(nil, program, path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.terminal()
	if setup.Server {
		p.background("exec sqlstore serve")
	}
	for _, b := range blocks {
		t.Logf("--- %s", &b)
		switch b.Language {
		case "sh":
			p.sh(b.Text)
		case "console":
			p.console(b.Text)
		case "sql":
			p.sql(b.Text)
		}
		if t.Failed() {
			t.Fatalf("%s does not work", &b)
		}
	}
}

// terminal continues in a new shell.
func (p *page) terminal() {
	p.t.Helper()
	p.shell = startShell(p.t, p.work, p.environment())
}

// environment points tools that are given no address to the page's own servers, and clones of the repository to this
// one.
func (p *page) environment() []string {
	server := "http://" + p.port("2379")
	return append(os.Environ(),
		"PATH="+filepath.Join(p.dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"),
		"HOME="+homeFor(p.t),
		// for make run and make edge
		"LISTEN="+server, "CONSOLE=http://"+p.port("2382"), "EDGE_FLAGS=--listen="+p.port("6443"),
		"SQLSTORE_LISTEN_CLIENT_URLS="+server,
		"SQLSTORE_ENDPOINT="+server,
		"ETCDCTL_ENDPOINTS="+server,
		"GIT_CONFIG_GLOBAL="+p.gitConfig(),
	)
}

// gitConfig writes a configuration that maps the repository's address to this checkout, whoever owns it.
func (p *page) gitConfig() string {
	p.t.Helper()
	path := filepath.Join(p.dir, "gitconfig")
	const text = "[safe]\n\tdirectory = *\n[url %q]\n\tinsteadOf = https://github.com/sqlstore/sqlstore\n"
	if err := os.WriteFile(path, fmt.Appendf(nil, text, "file://"+Root(p.t)), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// homeFor returns the home directory even where HOME is unset, as in continuous integration.
func homeFor(t *testing.T) string {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	return home
}

// port returns the replacement of 127.0.0.1:PORT.
func (p *page) port(documented string) string {
	p.t.Helper()
	if p.ports[documented] == "" {
		address, err := launch.FreeAddress()
		if err != nil {
			p.t.Fatal(err)
		}
		p.ports[documented] = address
	}
	return p.ports[documented]
}

var (
	loopback    = regexp.MustCompile(`127\.0\.0\.1:(\d+)`)
	securePort  = regexp.MustCompile(`--secure-port=(\d+)`) // of kube-apiserver
	directories = regexp.MustCompile(`/var/lib/sqlstore|/var/lib/etcd|/etc/sqlstore|/backup\b`)
	localhost   = regexp.MustCompile(`(postgres://[^@\s']+)@localhost/`)
)

// fit replaces the addresses and directories of a page.
func (p *page) fit(text string) string {
	if p.replace != nil {
		text = p.replace(text)
	}
	text = loopback.ReplaceAllStringFunc(text, func(s string) string {
		_, documented, _ := net.SplitHostPort(s)
		return p.port(documented)
	})
	text = securePort.ReplaceAllStringFunc(text, func(s string) string {
		flag, documented, _ := strings.Cut(s, "=")
		_, port, _ := net.SplitHostPort(p.port(documented))
		return flag + "=" + port
	})
	text = directories.ReplaceAllStringFunc(text, func(s string) string { return p.dir + s })
	return localhost.ReplaceAllStringFunc(text, func(s string) string {
		user, _, _ := strings.Cut(s, "@localhost")
		return user + "@" + p.database().Addr() + "/"
	})
}

func (p *page) database() *pgserver.Server {
	p.t.Helper()
	if p.postgres == nil {
		p.postgres = pgserver.Start(p.t, pgserver.Options{})
	}
	return p.postgres
}

// keep ends a block that keeps its terminal.
const keep = "# keep it running"

func (p *page) sh(text string) {
	p.t.Helper()
	if strings.HasSuffix(strings.TrimSpace(text), keep) {
		p.background(p.fit(text))
		return
	}
	p.shell.run(p.fit(text))
}

// background runs a server and waits until its log says that it is ready. The page continues in another terminal.
func (p *page) background(text string) {
	p.t.Helper()
	log := filepath.Join(p.t.TempDir(), "log")
	p.shell.run(fmt.Sprintf(`: >%[2]s
( %[1]s
) >>%[2]s 2>&1 &
server=$!
exec {log}< <(exec tail -n +1 -f --pid=$server %[2]s)
tail=$!
grep -qE -m1 '"msg":"ready"|"msg":"ready to serve client requests"|(msg=|INFO  )ready' <&$log || { cat %[2]s; exit 1; }
kill $tail`, text, log))
	p.terminal()
}

var prompt = regexp.MustCompile(`(?m)^\$ `)

// endless marks a command that runs until it is interrupted.
const endless = "# Ctrl-C ends it"

func (p *page) console(text string) {
	p.t.Helper()
	for _, part := range prompt.Split(text, -1)[1:] {
		command, want := cutCommand(part)
		if before, ok := strings.CutSuffix(strings.TrimSpace(command), endless); ok {
			command = fmt.Sprintf("exec {lines}< <(exec %s 2>&1)\ncommand=$!\nhead -n %d <&$lines\nkill $command",
				strings.TrimSpace(before), strings.Count(want, "\n"))
		}
		got := p.shell.run(p.fit(command))
		if !matches(p.fit(want), got) {
			p.t.Errorf("$ %s\nprints\n%s\nthe page says\n%s", command, got, p.fit(want))
		}
	}
}

// cutCommand splits the lines of a prompt into the command, which backslashes continue, and its output.
func cutCommand(text string) (command, output string) {
	for {
		line, rest, _ := strings.Cut(text, "\n")
		command += line + "\n"
		text = rest
		if !strings.HasSuffix(line, `\`) {
			return command, text
		}
	}
}

// matches compares output with a page's, in which "..." stands for anything.
func matches(want, got string) bool {
	pattern := regexp.QuoteMeta(strings.TrimSpace(want))
	pattern = regexp.MustCompile(`(?m)^\\\.\\\.\\\.$`).ReplaceAllString(pattern, `(?s:.*)`)
	pattern = strings.ReplaceAll(pattern, `\.\.\.`, `.*`)
	return regexp.MustCompile("^" + pattern + "$").MatchString(strings.TrimSpace(got))
}

// sql runs statements in the database that the page has created, or, before that, in the server's own.
func (p *page) sql(text string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), timeout)
	defer cancel()
	own := p.database().DSN()
	conn, err := pgx.Connect(ctx, strings.Replace(own, "/postgres?", "/sqlstore?", 1))
	if err != nil {
		conn, err = pgx.Connect(ctx, own)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close(ctx)
	for statement := range strings.SplitSeq(text, ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := conn.Exec(ctx, statement); err != nil {
			p.t.Errorf("%s: %v", statement, err)
		}
	}
}
