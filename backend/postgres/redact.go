package postgres

import (
	"net/url"
	"strings"
)

const hidden = "xxxxx"

// shown lists the DSN parameters whose values may be logged; all others are hidden, known or not.
var shown = map[string]bool{
	"host": true, "hostaddr": true, "port": true, "dbname": true, "database": true, "user": true, "sslmode": true,
	"target_session_attrs": true, "application_name": true, "connect_timeout": true, "pool_max_conns": true,
	"default_query_exec_mode": true, "search_path": true,
	"sslrootcert": true,
}

// Redact returns a DSN that is safe to log: it hides passwords, the values of parameters that are not known to be
// harmless, and any part of a malformed DSN that may be a password.
func Redact(dsn string) string {
	dsn = strings.TrimSpace(dsn)
	if scheme, rest, ok := strings.Cut(dsn, "://"); ok && !strings.ContainsAny(scheme, "= '") {
		return scheme + "://" + redactURL(rest)
	}
	return redactKeywords(dsn)
}

func redactURL(rest string) string {
	// A password may contain characters that should have been escaped, so the user part ends at the last @.
	user, rest, found := cutLast(rest, "@")
	out := ""
	if found {
		name, _, secret := strings.Cut(user, ":")
		if out = name; secret {
			out += ":" + hidden
		}
		out += "@"
	}
	hosts, tail := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		hosts, tail = rest[:i], rest[i:]
	}
	for i, h := range strings.Split(hosts, ",") {
		if i > 0 {
			out += ","
		}
		out += redactHost(h)
	}
	path, query, found := strings.Cut(tail, "?")
	out += path
	if !found {
		return out
	}
	pairs := strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' })
	for i, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err != nil || !shown[plain] {
			pairs[i] = name + "=" + hidden
			if !strings.Contains(pair, "=") {
				pairs[i] = hidden
			}
		}
	}
	return out + "?" + strings.Join(pairs, "&")
}

// redactHost hides a port that is not a number of up to five digits: it may be a password whose @ is missing.
func redactHost(h string) string {
	i := strings.LastIndexByte(h, ':')
	if i < 0 || strings.HasSuffix(h, "]") || strings.Trim(h[i+1:], "0123456789") == "" && len(h)-i <= 6 {
		return h
	}
	return h[:i] + ":" + hidden
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

// redactKeywords processes name=value pairs, and hides everything from the first place that is not such a pair.
func redactKeywords(s string) string {
	var out []string
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		name, rest, ok := strings.Cut(s, "=")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(name, " \t\r\n'\\") {
			return strings.Join(append(out, hidden), " ")
		}
		value, rest, ok := keywordValue(strings.TrimLeft(rest, " \t\r\n"))
		if !ok || !shown[name] {
			value = hidden
		}
		out = append(out, name+"="+value)
		if !ok {
			break
		}
		s = rest
	}
	return strings.Join(out, " ")
}

// keywordValue splits off the value at the start of s, quoted or not, exactly as written.
func keywordValue(s string) (value, rest string, ok bool) {
	quoted := strings.HasPrefix(s, "'")
	for i := index(quoted); i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case quoted && s[i] == '\'':
			return s[:i+1], s[i+1:], true
		case !quoted && strings.IndexByte(" \t\r\n", s[i]) >= 0:
			return s[:i], s[i:], true
		}
	}
	return s, "", !quoted
}
