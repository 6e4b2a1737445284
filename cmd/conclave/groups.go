package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// groups are the groups of commands in the help of the root.
var groups = []struct{ title, names string }{
	{"Ask a team:", "run start watch status list result"},
	{"Steer a session:", "say pause resume retry finish cancel"},
	{"Look at a session:", "view transcript export pull"},
	{"Bring and take files:", "upload files diff apply"},
	{"Ask from other programs:", "serve mcp"},
	{"Graphs, journeys and single steps:", "pipeline scenario step"},
	{"Choose a team:", "config models eval"},
	{"Operate:", "dev worker doctor sandbox codec prune delete"},
}

// groupCommands sorts the commands of root into groups. Ungrouped commands come last.
func groupCommands(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for name := range strings.FieldsSeq(g.names) {
			for _, c := range root.Commands() {
				if c.Name() == name {
					c.GroupID = g.title
				}
			}
		}
	}
}
