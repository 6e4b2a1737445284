package main

import (
	"strings"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
)

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

// showFlags applies commonFlags to the commands below root.
func showFlags(root *cobra.Command) {
	for path, names := range commonFlags {
		if cmd, rest, err := root.Find(strings.Fields(path)); err == nil && len(rest) == 0 {
			hall.ShowFlags(cmd, strings.Fields(names)...)
		}
	}
}
