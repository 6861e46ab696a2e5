package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

var (
	errNobodyToAsk = errors.New("standard input is no terminal, so nothing was written: --yes writes without asking")
	errDeclined    = errors.New("nothing was written")
)

// ask asks the terminal, unless --yes is given. It returns an error unless the answer is yes.
func (k *keyRestorer) ask(ctx context.Context, c *cobra.Command, question string) error {
	if k.yes {
		return nil
	}
	in := c.InOrStdin()
	if f, ok := in.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return errNobodyToAsk
	}
	_, _ = fmt.Fprintf(c.ErrOrStderr(), "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return errDeclined
	case a := <-answer:
		if a != "y" && a != "yes" {
			return errDeclined
		}
	}
	return nil
}
