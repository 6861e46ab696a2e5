package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore/status"
)

const statusHelp = `Print the conditions of running servers, from /status on their client or metrics URLs.

    sqlstore status
    sqlstore status --endpoint https://10.0.0.5:2379,https://10.0.0.6:2379 \
        --cacert ca.crt --cert client.crt --key client.key

The exit code is 0 if every server is Ready, and 1 if one is not or does not answer.`

// errNotReady is returned if the table already shows what is wrong.
var errNotReady = errors.New("not every server is ready")

// statusCommand asks servers for their conditions.
func statusCommand() *cobra.Command {
	a := &asker{}
	output := ""
	cmd := &cobra.Command{
		Use: "status", Short: "Print the conditions of running servers", Long: statusHelp,
		Args: noArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	a.register(f, "client or metrics URLs of the servers: http, https, unix or unixs")
	f.StringVarP(&output, "output", "o", "table", "table, or json")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		if err := applyEnvironment(c.Flags(), given(c.Flags()), os.LookupEnv); err != nil {
			return err
		}
		show := printTable
		switch output {
		case "table":
		case "json":
			show = printJSON
		default:
			return fmt.Errorf("%w: --output %q is neither table nor json", errSettings, output)
		}
		answers, err := a.askAll(c.Context())
		if err != nil {
			return err
		}
		if err := show(c.OutOrStdout(), answers); err != nil {
			return err
		}
		return failures(answers)
	}
	return cmd
}

// answer is the result of asking one endpoint.
type answer struct {
	Endpoint string         `json:"endpoint"`
	Report   *status.Report `json:"status,omitempty"`
	Error    string         `json:"error,omitempty"`

	err error
}

// askAll asks all endpoints at once. Errors: [errSettings], those of reading TLS files.
func (a *asker) askAll(ctx context.Context) ([]answer, error) {
	targets, err := a.targets()
	if err != nil {
		return nil, err
	}
	answers := make([]answer, len(targets))
	var asking sync.WaitGroup
	for i, t := range targets {
		asking.Go(func() {
			answers[i].Endpoint = t.name
			if answers[i].Report, answers[i].err = a.ask(ctx, t); answers[i].err != nil {
				answers[i].Error = answers[i].err.Error()
			}
		})
	}
	asking.Wait()
	return answers, nil
}

// failures returns an error that names the endpoints without an answer, or errNotReady.
func failures(answers []answer) error {
	var errs []error
	ready := true
	for i := range answers {
		if answers[i].err != nil {
			errs = append(errs, answers[i].err)
			continue
		}
		ready = ready && status.IsTrue(answers[i].Report.Conditions, status.Ready)
	}
	if !ready {
		errs = append(errs, errNotReady)
	}
	return errors.Join(errs...)
}

func printJSON(w io.Writer, answers []answer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(answers)
}
