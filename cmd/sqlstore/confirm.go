package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// errNotConfirmed is returned if nobody has agreed to a loss.
var errNotConfirmed = errors.New("nothing was changed: pass --yes, or type the answer at the terminal, to continue")

// confirm waits for word at a terminal and treats any other answer as no.
func confirm(in io.Reader, out io.Writer, what, word string) error {
	if f, ok := in.(*os.File); ok {
		if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
			return errNotConfirmed // a pipe or a file: nobody can answer
		}
	}
	if _, err := fmt.Fprintf(out, "Type the %s (%s) to confirm: ", what, word); err != nil {
		return err
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		_, _ = fmt.Fprintln(out) // end the line of the question
	}
	if strings.TrimSpace(line) != word || err != nil && !errors.Is(err, io.EOF) {
		return errNotConfirmed
	}
	return nil
}
