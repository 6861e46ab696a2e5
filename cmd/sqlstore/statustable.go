package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// printTable prints a heading and the conditions of each server that answered. Missing answers are reported as errors.
func printTable(w io.Writer, answers []answer) error {
	printed := false
	for i := range answers {
		r := answers[i].Report
		if r == nil {
			continue
		}
		if printed {
			fmt.Fprintln(w)
		}
		printed = true
		fmt.Fprintf(w, "%s: %s, sqlstore %s, etcd API %s, generation %d\n", answers[i].Endpoint, r.Name, r.Version,
			r.EtcdVersion, r.Generation)
		fmt.Fprintf(w, "datastore %s", r.Datastore)
		if r.Member != "" {
			fmt.Fprintf(w, ", revision %d, compacted %d, member %s of %d, leader %s", r.Revision, r.Compacted, r.Member,
				r.Members, r.Leader)
		}
		fmt.Fprintln(w)
		if r.Size != nil {
			fmt.Fprintf(w, "size %s\n", r.Size)
		}
		if r.Backup != nil {
			fmt.Fprintf(w, "backups to %s\n", r.Backup)
		}
		if e := r.LastError; e != nil {
			fmt.Fprintf(w, "last database error, %s ago: %s\n", ageOf(r.Time.Sub(e.Time)), cell(e.Message))
		}
		fmt.Fprintln(w)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "CONDITION\tSTATUS\tAGE\tGENERATION\tREASON\tMESSAGE")
		for j := range r.Conditions {
			c := &r.Conditions[j]
			name, status := c.Type, c.Status
			switch c.Mark() {
			case "-":
				name = "! " + name
			case "~":
				status += ", acknowledged"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", name, status,
				ageOf(r.Time.Sub(c.LastTransitionTime)), c.ObservedGeneration, c.Reason, cell(c.Message))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// cell makes a message fit into a table cell.
func cell(s string) string { return strings.Join(strings.Fields(s), " ") }

// ageOf formats a duration as kubectl does, in its one or two largest units.
func ageOf(d time.Duration) string {
	d = max(0, d)
	days, hours, minutes, seconds := int(d.Hours())/24, int(d.Hours())%24, int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 10*time.Minute && seconds > 0:
		return fmt.Sprintf("%dm%ds", minutes, seconds)
	case d < 3*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 8*time.Hour && minutes > 0:
		return fmt.Sprintf("%dh%dm", hours, minutes)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	case d < 8*24*time.Hour && hours > 0:
		return fmt.Sprintf("%dd%dh", days, hours)
	}
	return fmt.Sprintf("%dd", days)
}
