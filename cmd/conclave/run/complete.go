package runs

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"conclave/activities"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/local"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/files/artifact"
	"conclave/engine/text"
	"conclave/worker/cluster"
	"conclave/workflows"
)

// completionTime is the maximum time that a shell waits for words.
const completionTime = 1500 * time.Millisecond

// completer completes words in a shell. It never starts a stack.
type completer struct {
	cli   *cli.CLI
	kinds []*Kind
}

// Complete sets the shell completion of the commands below root. Arguments are completed
// by their names in the usage lines, and flags by the IDs of agents and the names of
// teams. The IDs are those of runs of the kinds.
func Complete(cli *cli.CLI, root *cobra.Command, kinds []*Kind) {
	c := completer{cli: cli, kinds: kinds}
	for _, cmd := range root.Commands() {
		Complete(cli, cmd, kinds)
		if names := argumentNames(cmd.Use); len(names) > 0 && cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = c.completeArguments(names)
		}
		for flag, complete := range map[string]cobra.CompletionFunc{
			"agent": func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
				return c.agentIDs(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
			},
			"continue": c.idsOf("session"),
			"run":      c.idsOf("pipeline run"),
			"team": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return c.teamNames(), cobra.ShellCompDirectiveNoFileComp
			},
			"session-dir": cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
		} {
			if cmd.Flags().Lookup(flag) != nil {
				_ = cmd.RegisterFlagCompletionFunc(flag, complete) // fails for unknown flags only
			}
		}
	}
}

func argumentNames(use string) []string {
	var names []string
	for _, word := range strings.Fields(use)[1:] {
		word = strings.TrimSuffix(strings.Trim(word, "[]"), "...")
		if word != "flags" && word == strings.ToUpper(word) && strings.IndexFunc(word, func(r rune) bool { return r < 'A' || r > 'Z' }) < 0 {
			names = append(names, word)
		}
	}
	return names
}

func (c completer) completeArguments(names []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(names) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		switch names[len(args)] {
		case "ID":
			return c.newestIDs(cmd.Context(), prefix), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		case "AGENT":
			return c.agentIDs(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
		case "DIR":
			return nil, cobra.ShellCompDirectiveFilterDirs
		case "FILE":
			return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

func (c completer) idsOf(noun string) cobra.CompletionFunc {
	c.kinds = slices.DeleteFunc(slices.Clone(c.kinds), func(k *Kind) bool { return k.Noun != noun })
	return func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return c.newestIDs(cmd.Context(), prefix), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

func (c completer) connectToRunning(ctx context.Context, t cli.Target) (*cli.Connection, bool) {
	options := t.Options
	if !t.Cluster {
		stack, serves, err := local.Find(t.DataDir)
		if err != nil || !serves {
			return nil, false
		}
		options = client.Options{HostPort: stack.TemporalAddress, Namespace: stack.Namespace}
	}
	connected, err := cluster.Dial(ctx, options, slog.New(slog.DiscardHandler))
	return &cli.Connection{CLI: c.cli, Target: t, Client: connected}, err == nil
}

func (c completer) teamNames() []string {
	names := []string{activities.DefaultTeam}
	if w, err := teams.OpenWorker(c.cli, cli.Target{}); err == nil {
		names = append(names, w.Names()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (c completer) newestIDs(ctx context.Context, prefix string) []string {
	t, err := c.cli.Target()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	connected, ok := c.connectToRunning(ctx, t)
	if !ok {
		return c.storedIDs(t, prefix)
	}
	defer connected.Client.Close()
	const maxQuery = 50
	var words []string
	for _, r := range newestRuns(ctx, connected, c.kinds, prefix) {
		words = append(words, r.shortestName()+"\t"+r.Shown()+" · "+text.Truncate(cli.Line(r.Query), maxQuery))
	}
	return words
}

// maxCompletions is the maximum number of runs offered to a shell.
const maxCompletions = 100

// newestRuns returns the newest runs whose IDs have a prefix. If the server is slow, older ones are missing.
func newestRuns(ctx context.Context, conn *cli.Connection, kinds []*Kind, prefix string) (found []Run) {
	for _, span := range spans {
		var all []Run
		for _, kind := range kinds {
			some, err := listRuns(ctx, conn, kind, span)
			if err != nil {
				return found
			}
			all = append(all, some...)
		}
		found = slices.DeleteFunc(all, func(r Run) bool {
			return !strings.HasPrefix(r.shortestName(), prefix) || prefix == "" && r.listKind() == ofEvaluation
		})
		slices.SortStableFunc(found, func(a, b Run) int { return b.Started.Compare(a.Started) })
		if len(found) >= maxCompletions {
			return found[:maxCompletions]
		}
	}
	return found
}

func (r Run) shortestName() string {
	if r.Slug == "" && strings.HasSuffix(r.Workflow, "-"+r.ID) {
		return r.ID
	}
	return r.Name()
}

// storedIDs returns the newest runs with files in the data directory of a stopped stack.
func (c completer) storedIDs(t cli.Target, prefix string) []string {
	if t.Cluster {
		return nil
	}
	var found []directory
	for _, kind := range c.kinds {
		name := "*"
		if kind.MemoSlug != "" {
			name = "*/*"
		}
		for _, dir := range matchingDirectories(t, kind.At(nil, name).Layout.Root()) {
			if kind.MemoSlug != "" { // scenarios/SLUG/runs/RUN_ID
				dir.name = path.Base(path.Dir(path.Dir(dir.path))) + "/" + dir.name
			}
			if strings.HasPrefix(dir.name, prefix) {
				found = append(found, dir)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b directory) int { return b.changed.Compare(a.changed) })
	return text.Each(found[:min(len(found), maxCompletions)], func(dir directory) string { return dir.name })
}

// directory is a directory in the store of a local stack.
type directory struct {
	path, name string
	changed    time.Time
}

func matchingDirectories(t cli.Target, pattern string) []directory {
	objects := os.DirFS(filepath.Join(local.Objects(t.DataDir), local.Bucket))
	names, err := fs.Glob(objects, strings.TrimSuffix(pattern, "/"))
	if err != nil {
		return nil
	}
	var found []directory
	for _, name := range names {
		if info, err := fs.Stat(objects, name); err == nil && info.IsDir() {
			found = append(found, directory{name, info.Name(), info.ModTime()})
		}
	}
	return found
}

// agentIDs returns the agents of the run whose ID is in args. They are those with files
// in a local store, or else those that a worker returns in time.
func (c completer) agentIDs(ctx context.Context, args []string) []string {
	t, err := c.cli.Target()
	if len(args) == 0 || err != nil || artifact.CheckSessionID(args[0]) != nil {
		return nil
	}
	if !t.Cluster {
		ids := text.Each(matchingDirectories(t, artifact.InBucket(args[0]).Agent("*", "")), func(dir directory) string { return dir.name })
		if len(ids) > 0 {
			return ids
		}
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	connected, ok := c.connectToRunning(ctx, t)
	if !ok {
		return nil
	}
	defer connected.Client.Close()
	var state struct {
		Agents []struct {
			ID string `json:"id"`
		} `json:"agents"`
	}
	if Query(ctx, connected, args[0], workflows.StateQuery, &state) != nil {
		return nil
	}
	var ids []string
	for _, a := range state.Agents {
		ids = append(ids, a.ID)
	}
	return ids
}
