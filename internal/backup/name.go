package backup

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

// Name names one file of a bucket, and says what it covers.
type Name struct {
	// Chain is the folder of the file.
	Chain string
	// After and Revision are the revisions that the file covers: those above After, up to Revision. After is 0 for a
	// full backup.
	After, Revision int64
	Full            bool
	// At is a time, in milliseconds, at which no revision above the file's was committed yet, by the clock of the
	// server that wrote it.
	At time.Time
	// Encrypted files can be read with one of the age identities that they are encrypted to.
	Encrypted bool
}

const (
	timeForm  = "20060102T150405.000Z"
	chainForm = "20060102T150405Z"
	suffix    = ".zst"
	sealed    = ".age"
)

// chainName returns the name of a store's chain that begins at a time.
func chainName(at time.Time, clusterID uint64) string {
	return fmt.Sprintf("%s-%016x", at.UTC().Format(chainForm), clusterID)
}

func isChain(name string) bool {
	if len(name) != len(chainForm)+1+16 {
		return false
	}
	at, err := time.Parse(chainForm, name[:len(chainForm)])
	id, bad := strconv.ParseUint(name[len(chainForm)+1:], 16, 64)
	return err == nil && bad == nil && chainName(at, id) == name
}

// ofStore reports whether a chain is one of a store.
func ofStore(chain string, clusterID uint64) bool {
	return strings.HasSuffix(chain, fmt.Sprintf("-%016x", clusterID))
}

// String returns the path of the file in its bucket. Within a chain, the order of the paths is that of the revisions.
func (n Name) String() string {
	what := "full"
	if !n.Full {
		what = fmt.Sprintf("after-%019d", n.After)
	}
	s := fmt.Sprintf("%s/%019d-%s-%s%s", n.Chain, n.Revision, what, n.At.UTC().Format(timeForm), suffix)
	if n.Encrypted {
		s += sealed
	}
	return s
}

var errName = errors.New("not the name of a backup's file")

// ParseName reads the path of a file. Other files may lie in the same bucket; it returns an error for them.
func ParseName(s string) (n Name, err error) {
	n.Chain = path.Dir(s)
	base := path.Base(s)
	base, n.Encrypted = strings.CutSuffix(base, sealed)
	base, ok := strings.CutSuffix(base, suffix)
	if !ok || !isChain(n.Chain) {
		return n, errName
	}
	parts := strings.Split(base, "-")
	switch {
	case len(parts) == 3 && parts[1] == "full":
		n.Full = true
	case len(parts) == 4 && parts[1] == "after":
		n.After, err = strconv.ParseInt(parts[2], 10, 64)
	default:
		err = errName
	}
	if err == nil {
		n.Revision, err = strconv.ParseInt(parts[0], 10, 64)
	}
	if err == nil {
		n.At, err = time.Parse(timeForm, parts[len(parts)-1])
	}
	if err == nil && (n.String() != s || n.After > n.Revision || n.After < 0) {
		err = errName
	}
	return n, err
}

// compare orders names of one chain: the full backup first, then by the revisions.
func compare(a, b Name) int {
	if a.Full != b.Full {
		if a.Full {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.After, b.After), a.At.Compare(b.At))
}
