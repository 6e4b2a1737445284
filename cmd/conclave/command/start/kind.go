package start

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"conclave/activities/attempt"
	acts "conclave/activities/session"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/inputs"
	"conclave/cmd/conclave/run/outputs"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// Kind describes sessions for the commands that take an ID.
func Kind() *runs.Kind {
	return &runs.Kind{
		Kind: record.Sessions, List: "list", MemoID: sessionflow.MemoSession, StateKeys: [2]string{"session_id", "query"}, UsageKey: "cost",
		Undecided: string(coordination.Undecided), Statuses: endStatuses(), OfflineNote: teams.OfflineNote, Actions: sessionActions(),
	}
}

// sessionReporter reads and prints sessions.
type sessionReporter struct{}

func sessionActions() runs.Reported[sessionflow.Result, acts.State] {
	return runs.Reported[sessionflow.Result, acts.State]{Reporter: sessionReporter{}}
}

// Await waits for the end of a session and returns its result. If Temporal ended the session, the
// result is completed from the last state.
func Await(ctx context.Context, conn *cli.Connection, run runs.Run) (sessionflow.Result, error) {
	return sessionActions().Await(ctx, conn, run)
}

// AdaptUpdate implements runs.Requests: a session takes every update.
func (sessionReporter) AdaptUpdate(*cli.Connection, runs.Run, *runs.Update) error { return nil }

// ReopenInput implements runs.Requests. It refuses a session whose decision stands.
func (sessionReporter) ReopenInput(ctx context.Context, conn *cli.Connection, run runs.Run, asked workflows.Request) (any, error) {
	if run.Status != string(coordination.FailedAll) && run.Status != string(coordination.Undecided) && run.Status != workflows.Cancelled {
		return nil, cli.Exitf(cli.ExitUsage, "retry %s: it has decided (%s), and a decision stands; nothing was started, `%s` prints the answer",
			run, run.Status, conn.CommandLine("result", run.Name()))
	}
	input := sessionflow.Input{Resume: true, Agent: asked.Agent, Text: asked.Text}
	if run.ID != run.Workflow {
		input.SessionID = run.ID
	}
	if conn.Store == nil {
		return input, nil
	}
	process := attempt.Process{Store: conn.Store}
	if !conn.Cluster {
		process.Teams = teams.Registry(conn.Target)
	}
	ctx, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
	defer cancel()
	saved := acts.Activities{Process: process}
	if err := saved.CanReopen(ctx, acts.ReopenInput{Session: run.ID, WorkflowID: run.Workflow, Agent: asked.Agent, Text: asked.Text}); err != nil {
		return nil, runs.CannotReopen(conn, run, asked, err)
	}
	return input, nil
}

func endStatuses() []string {
	var all []string
	for _, s := range []coordination.Status{
		coordination.Consensus, coordination.Plurality, coordination.Presented, coordination.Finished, coordination.Limit,
		coordination.Timeout, coordination.OverSpent, coordination.Undecided, coordination.FailedAll,
	} {
		all = append(all, string(s))
	}
	return all
}

func (sessionReporter) NewResult(run runs.Run, status string, why *artifact.Error) sessionflow.Result {
	return sessionflow.Result{
		SessionID: run.ID, Status: status, Votes: map[string]int{}, Voters: []string{}, Failed: []coordination.FailedAgent{},
		DurationSeconds: run.Seconds(), Error: why,
	}
}

func (sessionReporter) CompleteResult(run runs.Run, r sessionflow.Result, s acts.State) sessionflow.Result {
	s = run.Counting(s)
	r.Rounds, r.Cost = s.Round, s.Cost
	r.Agents, r.Voters, r.Failed = len(s.Agents), s.Voters(), s.Failed()
	if s.Votes != nil {
		r.Votes = s.Votes
	}
	return r
}

// NewDisplay implements runs.Reporter. Progress goes to stderr, or to stdout with --automation.
func (sessionReporter) NewDisplay(conn *cli.Connection, _ runs.Run) cli.Display {
	if conn.Automation {
		return cli.NewLines(conn.Stdout)
	}
	return cli.NewDisplay(conn.Stderr)
}

func (sessionReporter) NewView(conn *cli.Connection, run runs.Run) runs.View[acts.State] {
	revoted := 0 // the last round that repeated a vote; 0 for none
	var received map[string]coordination.Entry
	said := words{conn: conn, layout: artifact.InBucket(run.ID), gists: map[string]string{}}
	return func(ctx context.Context, f *runs.Follower, state acts.State) cli.Snapshot {
		s := cli.Snapshot{State: state, Holds: sessionHolds(conn.CLI, state, run.Name())}
		if f.Behind(state.Events) {
			var events []coordination.Entry
			if err := f.Query(ctx, workflows.TimelineQuery, &events); err == nil {
				s.News, s.Missed = f.News(events)
				received = cli.Receive(received, s.News)
				said.read(ctx, s.News)
				if repeatsVote(state, events) {
					revoted = state.Round
				}
			}
		}
		s.Revote, s.Received = revoted > 0 && revoted == state.Round, received
		s.Models, s.Gists, s.Recent = said.models, said.gists, said.recent
		return s
	}
}

// words are the texts that a terminal shows of the agents of a session besides its state.
type words struct {
	conn   *cli.Connection
	layout artifact.Layout
	models map[string]string // names of the models, by agent; nil until they are read
	gists  map[string]string // first lines of the newest answers, by agent
	recent []string          // agents by their newest answers and votes
}

// read reads the answers among events. Unreadable answers are missing.
func (w *words) read(ctx context.Context, events []coordination.Entry) {
	if !w.conn.Interactive() {
		return
	}
	if w.models == nil {
		w.models = modelNames(ctx, w.conn, w.layout)
	}
	newest := map[string]int{} // steps of answers, by agent
	for _, e := range events {
		if e.Kind == coordination.EntryAnswer || e.Kind == coordination.EntryVote {
			w.recent = append(slices.DeleteFunc(w.recent, func(id string) bool { return id == e.Agent }), e.Agent)
		}
		if e.Kind == coordination.EntryAnswer {
			newest[e.Agent] = e.Step
		}
	}
	for agent, number := range newest {
		delete(w.gists, agent)
		if w.conn.Store == nil {
			continue
		}
		if a, err := artifact.ReadJSON[artifact.Answer](ctx, w.conn.Store, w.layout.Step(agent, number, "answer.json")); err == nil {
			w.gists[agent] = cli.FirstLine(a.Answer)
		}
	}
}

// modelNames returns the names of the models of a session's agents, or nil if it cannot be read.
func modelNames(ctx context.Context, conn *cli.Connection, layout artifact.Layout) map[string]string {
	if conn.Store == nil {
		return nil
	}
	team, err := artifact.ReadJSON[record.Team](ctx, conn.Store, layout.File("config.json"))
	if err != nil {
		return nil
	}
	names := map[string]string{}
	for _, a := range team.Agents {
		names[a.ID] = cmp.Or(a.Backend.Model, a.Backend.Type)
	}
	return names
}

func sessionHolds(c *cli.CLI, s acts.State, workflow string) []cli.Hold {
	if s.Status != workflows.Running || s.Phase == coordination.PhaseDone {
		return nil
	}
	onRetry := "runs the failed steps again, `cancel` ends the session"
	if slices.ContainsFunc(s.Agents, func(a coordination.AgentView) bool { return a.Answers > 0 }) {
		onRetry = "runs the failed steps again, `finish` decides without them"
	}
	return runs.Holds(c, workflow, s.Paused, s.Parked, onRetry)
}

// repeatsVote reports whether the round of a running session repeats a split vote.
func repeatsVote(s acts.State, events []coordination.Entry) bool {
	return slices.ContainsFunc(events, func(e coordination.Entry) bool {
		return e.Revote() && e.Round == s.Round && s.Status == workflows.Running
	})
}

func (sessionReporter) PrintStatus(ctx context.Context, conn *cli.Connection, run runs.Run) error {
	run, state, err := readSessionState(ctx, conn, run)
	if err != nil {
		return err
	}
	if conn.Scripted() {
		if state.Status == workflows.Running {
			if state.Status = runs.Waiting(state.Paused, state.Parked); state.Status == workflows.Running && len(state.Questions) > 0 {
				state.Status = workflows.Waiting
			}
		}
		for i, a := range state.Agents {
			if doing := run.Doing(a.ID); doing != nil {
				state.Agents[i].Doing = doing
			}
		}
		return runs.PrintState(conn, run, state)
	}
	shown := cli.Snapshot{
		State: state, Elapsed: run.Elapsed(), Holds: append(runs.QuestionHolds(conn.CLI, run), sessionHolds(conn.CLI, state, run.Name())...),
		Now: time.Now(), Activities: run.Activities, Models: modelNames(ctx, conn, artifact.InBucket(run.ID)),
	}
	_, shown.Offline = run.ExplainOffline()
	var events []coordination.Entry
	if run.Running() && runs.Query(ctx, conn, run.Workflow, workflows.TimelineQuery, &events) == nil {
		shown.Revote, shown.Received = repeatsVote(state, events), cli.Receive(nil, events)
	}
	lines := cli.SnapshotTable(shown)
	if spent := runs.BeforeReset(ctx, conn, run); spent != "" {
		lines = append(lines, "  "+spent)
	}
	if why := runs.EndLine(state.Status, state.Error); why != "" {
		lines = append(lines, why)
	}
	if state.Continues != "" {
		lines = append(lines, "  continues "+strings.Join(continuedIDs(ctx, conn, state.Continues), ", which continues "))
	}
	result := ""
	if state.Winner != "" {
		result = "answer"
	}
	return runs.PrintStatus(ctx, conn, run, lines, result)
}

func readSessionState(ctx context.Context, conn *cli.Connection, run runs.Run) (runs.Run, acts.State, error) {
	var state acts.State
	answered, err := runs.QueryState(ctx, conn, run, &state)
	if err != nil {
		return run, state, err
	}
	if !answered {
		r, err := Await(ctx, conn, run)
		if err != nil {
			return run, state, err
		}
		state = closedState(ctx, conn, run, r)
	}
	if state.Phase == coordination.PhaseDone { // it may have ended since it was looked up
		run = runs.Refreshed(ctx, conn, run)
	}
	if !run.Running() {
		closeState(&state, run, runs.EndError(ctx, conn, run))
	}
	return run, run.Counting(state), nil
}

// continuedIDs returns the IDs of a session and of the sessions that it continues, the newest
// first. It ends where the store has no record.
func continuedIDs(ctx context.Context, conn *cli.Connection, id string) []string {
	const most = 20
	ids := []string{id}
	for conn.Store != nil && len(ids) < most {
		session, err := artifact.ReadJSON[artifact.Session](ctx, conn.Store, artifact.InBucket(ids[len(ids)-1]).File("session.json"))
		if err != nil || session.Continues == "" {
			break
		}
		ids = append(ids, session.Continues)
	}
	return ids
}

// closeState corrects the state of a closed session. A workflow ended by Temporal has not
// updated its state.
func closeState(state *acts.State, run runs.Run, why *artifact.Error) {
	state.Status, state.Phase, state.Paused, state.Parked = run.Status, coordination.PhaseDone, false, nil
	for i := range state.Agents {
		state.Agents[i].Running, state.Agents[i].Purpose, state.Agents[i].Doing = false, coordination.Coordinate, nil
	}
	if why != nil {
		state.Error = why
	}
}

// closedState returns the last recorded state, or else the part of it in the result and
// the memo.
func closedState(ctx context.Context, conn *cli.Connection, run runs.Run, r sessionflow.Result) acts.State {
	if state, ok := runs.ReadRecord[acts.State](ctx, conn, run); ok {
		return state
	}
	state := acts.State{SessionID: run.ID, Query: run.Query, Status: run.Status}
	state.Phase, state.Agents = coordination.PhaseDone, []coordination.AgentView{}
	state.Votes, state.Round, state.Winner, state.Cost, state.Error = r.Votes, r.Rounds, r.Winner, r.Cost, r.Error
	if state.Votes == nil {
		state.Votes = map[string]int{}
	}
	return state
}

func checkOutput(name string) error {
	if name == "" {
		return nil
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("--output-file: %s is not a regular file; name another one", name)
	}
	probe, err := os.CreateTemp(filepath.Dir(name), ".conclave-*")
	if err != nil {
		return fmt.Errorf("--output-file: %w; name a file in a directory that can be written", err)
	}
	_ = probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		return fmt.Errorf("--output-file: %w", err)
	}
	return nil
}

// checkApply refuses --apply without a directory, or if nobody can be asked.
func (f sessionFlags) checkApply(c *cli.CLI) error {
	switch {
	case !f.apply && f.yes:
		return errors.New("--yes answers the question of --apply; add --apply")
	case !f.apply:
		return nil
	case f.material.Directory() == "" && f.continues == "":
		return errors.New("--apply applies the change of --base DIR; add --base")
	case !f.yes && !c.CanConfirm():
		return errors.New("--apply asks before it changes anything, and there is no terminal to ask on; add --yes, or leave it out and use `conclave apply ID` after the run")
	}
	return nil
}

func offerApply(ctx context.Context, conn *cli.Connection, id string, yes bool) error {
	dir, err := inputs.Directory(conn, id)
	if err != nil {
		return cli.Exitf(cli.ExitNoAnswer, "%w", err)
	}
	if dir == "" {
		return cli.Exitf(cli.ExitNoAnswer, "the session has no directory to apply its answer to; `%s` applies it to one", conn.CommandLine("apply", id, "--to", "DIR"))
	}
	return outputs.Offer(ctx, conn, id, dir, yes)
}

func writeAnswer(ctx context.Context, conn *cli.Connection, id, name string) error {
	run := runs.Run{Kind: Kind(), ID: id, Workflow: id}
	r, err := Await(ctx, conn, run)
	if err != nil || r.Winner == "" {
		return err
	}
	text, err := runs.WholeText(ctx, conn, artifact.InBucket(id), runs.Text{Content: r.Answer, Truncated: r.AnswerTruncated, Path: r.AnswerPath})
	if err == nil {
		err = os.WriteFile(name, []byte(text), 0o644) //nolint:gosec // a document for people
	}
	if err != nil {
		return cli.Exitf(cli.ExitNoAnswer, "write the answer of session %s to %s: %w; `%s` prints it", id, name, err, conn.CommandLine("result", id))
	}
	return nil
}
