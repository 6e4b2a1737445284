package main

import (
	"strings"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/cli"
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
	{"Operate:", "dev worker doctor sandbox codec prune delete version man"},
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

// Groups of common flags.
const (
	connectionFlags = "address namespace data-dir"
	queueFlags      = connectionFlags + " task-queue"
	storeFlags      = "bucket prefix"
	outputFlags     = "json automation"
)

// commonFlags lists the common flags in the help of commands, by command path. A command
// without an entry shows the flags of its parent, or all.
var commonFlags = map[string]string{
	"watch":             queueFlags + " " + storeFlags + " " + outputFlags,
	"status":            queueFlags + " " + outputFlags,
	"result":            queueFlags + " " + storeFlags + " " + outputFlags,
	"say":               queueFlags + " " + outputFlags,
	"pause":             queueFlags + " " + outputFlags,
	"resume":            queueFlags + " " + outputFlags,
	"finish":            queueFlags + " " + outputFlags,
	"cancel":            queueFlags + " " + outputFlags,
	"retry":             queueFlags + " " + outputFlags,
	"list":              connectionFlags + " " + storeFlags + " json",
	"pipeline list":     connectionFlags + " " + storeFlags + " json",
	"pipeline validate": outputFlags,
	"pull":              storeFlags + " data-dir " + outputFlags,
	"view":              queueFlags + " " + storeFlags + " " + outputFlags,
	"export":            storeFlags + " data-dir",
	"files":             storeFlags + " data-dir " + outputFlags,
	"diff":              storeFlags + " data-dir " + outputFlags,
	"apply":             storeFlags + " data-dir " + outputFlags,
	"transcript":        storeFlags + " data-dir " + outputFlags,
	"prune":             connectionFlags + " " + storeFlags + " " + outputFlags,
	"delete":            connectionFlags + " " + storeFlags + " " + outputFlags,
	"step":              "config " + outputFlags,
	"dev":               "config data-dir task-queue json",
	"serve":             "config " + queueFlags + " " + storeFlags + " json",
	"serve key":         outputFlags,
	"mcp":               "config " + queueFlags + " " + storeFlags,
	"worker":            "config " + queueFlags + " " + storeFlags,
	"scenario create":   outputFlags,
	"scenario watch":    queueFlags + " " + storeFlags + " " + outputFlags,
	"scenario pause":    queueFlags + " " + outputFlags,
	"scenario resume":   queueFlags + " " + outputFlags,
	"scenario cancel":   queueFlags + " " + storeFlags + " " + outputFlags,
	"scenario status":   connectionFlags + " " + storeFlags + " " + outputFlags,
	"scenario list":     outputFlags,
	"models":            "config " + outputFlags,
	"models list":       outputFlags,
	"doctor":            "config " + queueFlags + " " + storeFlags + " " + outputFlags,
	"eval":              outputFlags,
	"eval run":          "config " + queueFlags + " " + storeFlags + " " + outputFlags,
	"eval gen":          "",
	"codec":             "json",
	"codec serve":       "",
	"config":            "json",
	"config schema":     "",
	"config validate":   "config json",
	"sandbox":           outputFlags,
	"version":           "json",
	"man":               "",
}

func showFlags(root *cobra.Command) {
	for path, names := range commonFlags {
		if cmd, rest, err := root.Find(strings.Fields(path)); err == nil && len(rest) == 0 {
			cli.ShowFlags(cmd, strings.Fields(names)...)
		}
	}
}
