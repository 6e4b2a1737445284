package runs

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"conclave/activities"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/localstack"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/team"
	"conclave/engine/artifact"
	"conclave/engine/text"
	"conclave/worker/cluster"
	"conclave/workflows/drive"
)

// completionTime is the maximum time that a shell waits for words.
const completionTime = 1500 * time.Millisecond

// completer completes words in a shell. It never starts a stack.
type completer struct {
	cli   *hall.CLI
	kinds []*Kind
}

// takeAll are the commands that accept the IDs of all kinds of runs.
var takeAll = []string{"say", "retry", "transcript", "delete"}

// Complete sets the shell completion of the commands below root. Arguments are completed
// by their names in the usage lines, and flags by the IDs of agents and the names of
// teams. The IDs are those of runs of the kinds; some commands also accept those of
// others.
func Complete(cli *hall.CLI, root *cobra.Command, kinds []*Kind, others ...*Kind) {
	for _, cmd := range root.Commands() {
		c := completer{cli: cli, kinds: kinds}
		if slices.Contains(takeAll, cmd.Name()) {
			c.kinds = slices.Concat(kinds, others)
		}
		Complete(cli, cmd, kinds, others...)
		if names := argumentNames(cmd.Use); len(names) > 0 && cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = c.arguments(names)
		}
		for flag, complete := range map[string]cobra.CompletionFunc{
			"agent": func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
				return c.agents(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
			},
			"continue": c.idsOf("session"),
			"run":      c.idsOf("pipeline run"),
			"team": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return c.teams(), cobra.ShellCompDirectiveNoFileComp
			},
			"session-dir": cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
		} {
			if cmd.Flags().Lookup(flag) != nil {
				_ = cmd.RegisterFlagCompletionFunc(flag, complete) // fails for unknown flags only
			}
		}
	}
}

// argumentNames returns the names of the arguments in a usage line, such as ID and AGENT.
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

// arguments completes the arguments with the given names.
func (c completer) arguments(names []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(names) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		switch names[len(args)] {
		case "ID":
			return c.ids(cmd.Context(), prefix), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		case "AGENT":
			return c.agents(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
		case "DIR":
			return nil, cobra.ShellCompDirectiveFilterDirs
		case "FILE":
			return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// idsOf completes the IDs of the runs of one kind.
func (c completer) idsOf(noun string) cobra.CompletionFunc {
	c.kinds = slices.DeleteFunc(slices.Clone(c.kinds), func(k *Kind) bool { return k.Noun != noun })
	return func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return c.ids(cmd.Context(), prefix), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// connect connects to a cluster or to a running stack.
func (c completer) connect(ctx context.Context, t hall.Target) (client.Client, bool) {
	options := t.Options
	if !t.Cluster {
		stack, serves, err := localstack.Find(t.DataDir)
		if err != nil || !serves {
			return nil, false
		}
		options = client.Options{HostPort: stack.TemporalAddress, Namespace: stack.Namespace}
	}
	connected, err := cluster.Dial(ctx, options, slog.New(slog.DiscardHandler))
	return connected, err == nil
}

// teams returns the default team and the teams of --worker-config.
func (c completer) teams() []string {
	names := []string{activities.DefaultTeam}
	if w, err := team.OpenWorker(c.cli, hall.Target{}); err == nil {
		names = append(names, w.Names()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ids returns the newest runs whose IDs have a prefix.
func (c completer) ids(ctx context.Context, prefix string) []string {
	t, err := c.cli.Target()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	connected, ok := c.connect(ctx, t)
	if !ok {
		return c.stored(t, prefix)
	}
	defer connected.Close()
	var found []Run
	for _, kind := range c.kinds {
		found = append(found, newest(ctx, connected, kind, prefix)...)
	}
	slices.SortStableFunc(found, func(a, b Run) int { return b.Started.Compare(a.Started) })
	const maxQuery = 50
	var words []string
	for _, r := range found[:min(len(found), maxCompletions)] {
		words = append(words, r.word()+"\t"+r.Shown()+" · "+text.Truncate(progress.Line(r.Query), maxQuery))
	}
	return words
}

// maxCompletions is the maximum number of runs offered to a shell.
const maxCompletions = 100

// newest returns the newest runs of a kind whose IDs have a prefix. If the server is
// slow, some are missing.
func newest(ctx context.Context, connected client.Client, kind *Kind, prefix string) []Run {
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus != 'ContinuedAsNew'", kind.Type),
	}
	var found []Run
	seen := map[string]bool{}
	for {
		page, err := connected.ListWorkflow(ctx, request)
		if err != nil {
			return found
		}
		for _, info := range page.GetExecutions() {
			if r := runOf(kind, info); !seen[r.Workflow] && strings.HasPrefix(r.word(), prefix) {
				seen[r.Workflow] = true
				found = append(found, r)
			}
		}
		request.NextPageToken = page.GetNextPageToken()
		if len(found) >= maxCompletions || len(request.NextPageToken) == 0 {
			return found
		}
	}
}

// word returns the argument that names the run: the workflow's ID, or the run's ID if
// the workflow's contains more.
func (r Run) word() string {
	if strings.HasSuffix(r.Workflow, "-"+r.ID) {
		return r.ID
	}
	return r.Workflow
}

// stored returns the newest runs with files in the data directory of a stopped stack.
func (c completer) stored(t hall.Target, prefix string) []string {
	if t.Cluster {
		return nil
	}
	var found []fs.FileInfo
	for _, kind := range c.kinds {
		for _, dir := range directories(t, kind.Dirs) {
			if strings.HasPrefix(dir.Name(), prefix) {
				found = append(found, dir)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	var ids []string
	for _, dir := range found[:min(len(found), maxCompletions)] {
		ids = append(ids, dir.Name())
	}
	return ids
}

// directories returns the directories that match a pattern in the store of a local stack.
func directories(t hall.Target, pattern string) []fs.FileInfo {
	objects := os.DirFS(filepath.Join(localstack.Objects(t.DataDir), localstack.Bucket))
	names, err := fs.Glob(objects, strings.TrimSuffix(pattern, "/"))
	if err != nil {
		return nil
	}
	var found []fs.FileInfo
	for _, name := range names {
		if info, err := fs.Stat(objects, name); err == nil && info.IsDir() {
			found = append(found, info)
		}
	}
	return found
}

// agents returns the agents of the run whose ID is in args. They are those with files
// in a local store, or else those that a worker returns in time.
func (c completer) agents(ctx context.Context, args []string) []string {
	t, err := c.cli.Target()
	if len(args) == 0 || err != nil || artifact.CheckSessionID(args[0]) != nil {
		return nil
	}
	if !t.Cluster {
		var ids []string
		for _, dir := range directories(t, artifact.InBucket(args[0]).Agent("*", "")) {
			ids = append(ids, dir.Name())
		}
		if len(ids) > 0 {
			return ids
		}
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	connected, ok := c.connect(ctx, t)
	if !ok {
		return nil
	}
	defer connected.Close()
	value, err := connected.QueryWorkflow(ctx, args[0], "", drive.StateQuery)
	var state struct {
		Agents []struct {
			ID string `json:"id"`
		} `json:"agents"`
	}
	if err != nil || value.Get(&state) != nil {
		return nil
	}
	var ids []string
	for _, a := range state.Agents {
		ids = append(ids, a.ID)
	}
	return ids
}
