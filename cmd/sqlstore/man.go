package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/sqlstore/sqlstore"
)

// manCommand writes the man pages, for packages. SOURCE_DATE_EPOCH sets the date in them.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write the man pages to a directory", Args: cobra.ExactArgs(1), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{
				Section: "1", Source: "sqlstore " + sqlstore.Version, Manual: "sqlstore",
			}, args[0])
		},
	}
}
