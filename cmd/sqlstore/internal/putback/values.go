package putback

import (
	"errors"
	"fmt"
	"os"
)

// values keeps values in a temporary file: together they may be larger than the memory.
type values struct {
	file *os.File
	size int64
}

// place is where a value lies in the file.
type place struct{ at, size int64 }

func newValues() (*values, error) {
	f, err := os.CreateTemp("", "sqlstore-restore-*")
	if err != nil {
		return nil, fmt.Errorf("create a file for the old values: %w; TMPDIR names another directory", err)
	}
	_ = os.Remove(f.Name()) // where the system allows it, a killed process leaves no file behind
	return &values{file: f}, nil
}

func (v *values) add(value []byte) (place, error) {
	p := place{v.size, int64(len(value))}
	if _, err := v.file.WriteAt(value, p.at); err != nil {
		return p, fmt.Errorf("keep the old values: %w; TMPDIR names another directory", err)
	}
	v.size += p.size
	return p, nil
}

func (v *values) get(p place) ([]byte, error) {
	value := make([]byte, p.size)
	if _, err := v.file.ReadAt(value, p.at); err != nil && p.size > 0 {
		return nil, err
	}
	return value, nil
}

// close removes the file.
func (v *values) close() error {
	err := v.file.Close()
	if e := os.Remove(v.file.Name()); e != nil && !errors.Is(e, os.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}
