package stagetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"conclave/activities/attempt"
	sessionacts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/session"
	"conclave/workflows"
	pipelineflow "conclave/workflows/pipeline"
	scenarioflow "conclave/workflows/scenario"
	sessionflow "conclave/workflows/session"
)

// The invariants of every run, in the order of docs/reliability.md.
const (
	oneCommit      = "one commit a token"
	writtenOnce    = "what is written once stays"
	nothingLost    = "an accepted entry is never lost or doubled"
	freshVotes     = "no stale vote is counted"
	labelsStay     = "labels never change hands"
	fenced         = "nobody acts behind a fence"
	onceRun        = "no command runs twice"
	callsCounted   = "every request is counted once"
	blobsThere     = "no manifest names a missing blob"
	readersSee     = "a reader sees what was decided"
	endedQuiet     = "ended means quiet"
	saidKept       = "an acknowledged message is never forgotten"
	somethingRuns  = "something waits or something runs"
	noSecrets      = "a secret is in no document"
	linearizable   = "creations are linearizable"
	sameReplay     = "a replay is the same run"
	endsAtSomeTime = "no run goes on for ever"
)

// facts is what has really happened in a run, beside what the product says. It checks the invariants.
type facts struct {
	w        *world
	tokens   map[string]string // of claims and commits, by file and token
	accepted []session.Entry   // entries that a workflow has asked to record
	commands map[string]int
	command  int
	requests []*request
	said     []string // messages whose update was answered
	ended    *flow    // the run has ended, and nothing has begun since
	creates_ []creation
	results  []*flow
}

func newFacts(w *world) *facts {
	return &facts{w: w, tokens: map[string]string{}, commands: map[string]int{}}
}

// check checks what has to hold at any time.
func (f *facts) check() {}

// idle is called when nothing happens for a while. Then a run has ended, works, waits for a time, or waits
// for people, who help it.
func (f *facts) idle(time.Duration) {
	run := f.w.temporal.open(f.w.root)
	if run == nil || slices.ContainsFunc(run.activities, func(a *job) bool { return !a.closed }) {
		return
	}
	if f.w.people.help(run) || slices.ContainsFunc(run.timers, func(t workflow.Settable) bool { return t != nil }) {
		return
	}
	f.w.breaks(somethingRuns, "nothing runs, and the run does not wait for anything")
}

// isOnce reports whether a key is written once and never removed before the session is.
func isOnce(key string) bool {
	if strings.Contains(key, "/final/") {
		return false
	}
	switch base := path.Base(key); base {
	case "step.json", "action.json", "answer.json", "vote.json", "stop.json", "session.json", "pipeline.json", "run.json", "config.json":
		return true
	}
	return strings.Contains(key, "/ledger/") || strings.Contains(key, "/blobs/sha256/") || strings.HasSuffix(key, ".result.json")
}

func (f *facts) written(by, key string, before []byte, there bool, after []byte) {
	if strings.Contains(string(after), secret) {
		f.w.breaks(noSecrets, "%s wrote it into %s", by, key)
	}
	if there && isOnce(key) && string(before) != string(after) {
		f.w.breaks(writtenOnce, "%s replaced %s:\n%s\nby\n%s", by, key, before, after)
	}
	switch base := path.Base(key); {
	case base == "action.json", base == "step.json":
		f.claimed(by, key, base, after)
	case strings.Contains(key, "/ledger/"):
		f.entered(key, after)
	case base == "workspace.json", base == "partial.json":
		var c artifact.Change
		if json.Unmarshal(after, &c) == nil {
			f.blobsOf(key, c)
		}
	}
	if f.ended != nil && f.isRecord(key) && string(before) != string(after) {
		f.w.breaks(endedQuiet, "%s wrote %s after the end", by, key)
	}
}

// isRecord reports whether a key is of the record of a run, which is complete at its end.
func (f *facts) isRecord(key string) bool {
	key = "/" + strings.TrimPrefix(key, rootOf(key))
	return path.Base(key) == "status.json" || path.Base(key) == "events.jsonl" || path.Base(key) == "result.json" ||
		strings.Contains(key, "/ledger/") || strings.Contains(key, "/final/") || strings.Contains(key, "/runs/")
}

func (f *facts) deleted(by, key string) {
	if isOnce(key) {
		f.w.breaks(writtenOnce, "%s deleted %s", by, key)
	}
}

// claimed checks a claim or a commit.
func (f *facts) claimed(by, key, base string, body []byte) {
	var c artifact.Commit
	if err := json.Unmarshal(body, &c); err != nil {
		f.w.breaks(oneCommit, "%s is malformed: %v", key, err)
		return
	}
	if other, there := f.tokens[base+c.Token]; there && other != key {
		f.w.breaks(oneCommit, "%s wrote %s with token %s, which %s has, too", by, key, c.Token, other)
	}
	f.tokens[base+c.Token] = key
	if base != "action.json" {
		return
	}
	root := rootOf(key)
	if c.Manifest != "" {
		body, there := f.w.bucket.objects[root+"blobs/sha256/"+c.Manifest]
		var change artifact.Change
		if !there || json.Unmarshal(body.body, &change) != nil {
			f.w.breaks(blobsThere, "%s names the manifest %s", key, c.Manifest)
			return
		}
		f.blobsOf(root+"blobs", change)
	}
	if c.Transcript != "" {
		_, blob := f.w.bucket.objects[root+"blobs/sha256/"+c.Transcript]
		file := f.w.bucket.objects[path.Dir(key)+"/transcript.jsonl"]
		if !blob && artifact.SumOf(file.body) != c.Transcript {
			f.w.breaks(blobsThere, "%s names the transcript %s", key, c.Transcript)
		}
	}
}

func (f *facts) blobsOf(key string, c artifact.Change) {
	root := rootOf(key)
	for _, file := range c.Files {
		if file.SHA256 == "" {
			continue
		}
		if _, there := f.w.bucket.objects[root+"blobs/sha256/"+file.SHA256]; !there && !f.w.inBase(file.SHA256) {
			f.w.breaks(blobsThere, "%s names %s of %s", key, file.SHA256, file.Path)
		}
	}
}

// entered checks a new ledger entry: its number, and that its action is committed.
func (f *facts) entered(key string, body []byte) {
	var e session.Entry
	if err := json.Unmarshal(body, &e); err != nil {
		f.w.breaks(nothingLost, "%s is malformed: %v", key, err)
		return
	}
	root := key[:strings.Index(key, "ledger/")]
	number := len(f.w.bucket.list(root + "ledger/"))
	if want := fmt.Sprintf("%sledger/%06d.json", root, number); key != want {
		f.w.breaks(nothingLost, "%s is written as the entry number %d", key, number)
	}
	if e.Action == session.Resumed || e.Action == coordination.Say || e.Step == 0 {
		return
	}
	commit := fmt.Sprintf("%sagents/%s/%03d/action.json", root, e.Agent, e.Step)
	var c artifact.Commit
	if o, there := f.w.bucket.objects[commit]; !there || json.Unmarshal(o.body, &c) != nil || c.Kind != string(e.Action) {
		f.w.breaks(nothingLost, "%s has a %s that %s does not have", key, e.Action, commit)
	}
}

// ledger returns the entries of a session that count, as a reader finds them.
func (f *facts) ledger(root string) (entries []session.Entry) {
	for _, key := range f.w.bucket.list(root + "ledger/") {
		var e session.Entry
		if err := json.Unmarshal(f.w.bucket.objects[key].body, &e); err != nil {
			f.w.breaks(nothingLost, "%s: %v", key, err)
			return nil
		}
		var err error
		if entries, err = session.Follow(entries, e); err != nil {
			f.w.breaks(nothingLost, "%s %v", key, err)
			return nil
		}
	}
	return entries
}

func (f *facts) read(context.Context, string, []byte, error) {}

// issued checks that an attempt still has the right to act.
func (f *facts) issued(ctx context.Context, op, key string) {
	at := executionOf(ctx)
	if at == nil || op == "create" && path.Base(key) != "action.json" {
		return
	}
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if now := at.job.current; now != nil && now.proc != at.proc {
		f.w.breaks(fenced, "%s on %s: %s %s, while %s is at work on %s", at, at.proc.name, op, key, now, now.proc.name)
	}
}

// scheduled notes what a workflow asks for.
func (f *facts) scheduled(a *job, args []any) {
	if in, ok := args[0].(sessionacts.RecordInput); ok {
		for _, e := range in.Entries {
			f.accepted = append(f.accepted, session.Entry{Run: a.flow.run, Accepted: e})
		}
	}
	if f.ended != nil && a.flow != f.ended {
		f.ended = nil
	}
}

func (f *facts) reported(*execution, *commonpb.Payloads, error) {}

// request is a request to a model that has left a process.
type request struct {
	by    *execution
	state string // "", paid, refused, cut

	forgotten bool // a reset has undone its step
}

func (f *facts) asked(ctx context.Context) *request {
	f.issued(ctx, "ask", "model")
	r := &request{by: executionOf(ctx)}
	r.forgotten = r.by.flow.killed
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.requests = append(f.requests, r)
	r.by.asked = r
	return r
}

// ends returns the usage of a request, which the model's server has answered.
func (r *request) ends(what string) llm.Usage {
	switch what {
	case "", "unusable":
		r.state = "paid"
		usd := 0.01
		return llm.Usage{ModelCalls: 1, InputTokens: 100, OutputTokens: 10, TotalUSD: &usd}
	}
	r.state = "refused"
	return llm.Usage{}
}

// abandoned forgets the last request of a step that is cancelled before its next attempt. If the store has
// refused the journal entry of its reply, only the heartbeats, which the server keeps to itself, have it.
func (f *facts) abandoned(a *job) {
	for _, r := range f.requests {
		r.forgotten = r.forgotten || r.by.job == a && r.by.asked == r
	}
}

func (f *facts) hasAnswered(agent string) bool { return f.answers(agent) > 0 }

// answers returns how many answers an agent has committed.
func (f *facts) answers(agent string) (n int) {
	for key := range f.w.bucket.objects {
		if strings.Contains(key, "/agents/"+agent+"/") && path.Base(key) == "answer.json" {
			n++
		}
	}
	return n
}

func (f *facts) newCommand() string {
	f.command++
	return fmt.Sprintf("command %d", f.command)
}

func (f *facts) ran(who, command string) {
	if !strings.HasPrefix(command, "command ") { // of a step of tools: it runs in every launch
		command, _, _ = strings.Cut(who, "/")
	}
	if f.commands[command]++; f.commands[command] > 1 {
		f.w.breaks(onceRun, "%s ran %q, which had run before", who, command)
	}
}

func (f *facts) sent(happened, string, any) {}

// answered returns the receiver of an update's answer.
func (f *facts) answered(h happening) *testsuite.TestUpdateCallback {
	return &testsuite.TestUpdateCallback{OnComplete: func(_ any, err error) {
		if in, ok := h.arg.(workflows.Request); ok && h.name == workflows.SaySignal && err == nil {
			f.said = append(f.said, in.Text)
			f.checkSaid("when it was acknowledged")
		}
	}}
}

func (f *facts) checkSaid(when string) {
	for _, text := range f.said {
		if !slices.ContainsFunc(sortedKeys(f.w.bucket.objects), func(key string) bool {
			return strings.Contains(key, "/messages/") && strings.Contains(string(f.w.bucket.objects[key].body), text)
		}) {
			f.w.breaks(saidKept, "%q is in no document %s", text, when)
		}
	}
}

// reset forgets the requests of the steps that a reset has undone.
func (f *facts) reset(old *flow, kept []task) {
	done := map[int]bool{}
	for _, t := range kept {
		for _, h := range t.batch {
			done[h.index] = done[h.index] || h.kind == completed
		}
	}
	for ; old != nil; old = old.before {
		for _, r := range f.requests {
			r.forgotten = r.forgotten || r.by.flow == old && !done[r.by.index] || r.by.flow.parent == old
		}
	}
}

// concluded checks the end of a run.
func (f *facts) concluded(run *flow) {
	f.results = append(f.results, run)
	f.checkSaid("at the end")
	switch run.kind {
	case sessionflow.Type:
		f.concludedSession(run)
	case pipelineflow.Type:
		f.concludedPipeline(run)
	case scenarioflow.Type:
		f.concludedScenario(run)
	}
}

func (f *facts) concludedSession(run *flow) {
	root := "sessions/s/"
	var result sessionResult
	if run.err != nil {
		f.w.people.goOn(run)
		return
	}
	if err := run.env.GetWorkflowResult(&result); err != nil {
		f.w.breaks(readersSee, "the result: %v", err)
		return
	}
	entries := f.ledger(root)
	f.checkAccepted(run, entries)
	f.checkLabels(entries)
	f.checkVotes(result, entries)
	f.checkReaders(root, result)
	f.checkCalls(result.Cost)
	f.ended = run
	switch result.Status {
	case "failed", "undecided":
		f.w.people.goOn(run)
	}
}

// checkAccepted requires that what the workflow has accepted is in the ledger once.
func (f *facts) checkAccepted(run *flow, entries []session.Entry) {
	for _, e := range f.accepted {
		if e.Run != run.run {
			continue
		}
		found := 0
		for _, there := range entries {
			if there.Seq == e.Seq && there.Agent == e.Agent && there.Step == e.Step && there.Action == e.Action && there.Label == e.Label {
				found++
			}
		}
		if found != 1 {
			f.w.breaks(nothingLost, "entry %d, %s of %s in step %d, is %d times in the ledger", e.Seq, e.Action, e.Agent, e.Step, found)
		}
	}
	seen := map[string]int{}
	for _, e := range entries {
		if e.Step == 0 {
			continue
		}
		step := fmt.Sprintf("%s/%d", e.Agent, e.Step)
		if other, there := seen[step]; there {
			f.w.breaks(nothingLost, "entries %d and %d have step %s", other, e.Seq, step)
		}
		seen[step] = e.Seq
	}
}

// checkLabels requires that a label is that of one answer, whose agent has its number.
func (f *facts) checkLabels(entries []session.Entry) {
	ids := slices.Sorted(slices.Values(f.w.agents()))
	count := map[string]int{}
	owners := map[string]string{}
	for _, e := range entries {
		if e.Action != coordination.NewAnswer || coordination.IsFinal(e.Label) {
			continue
		}
		count[e.Agent]++
		if want := fmt.Sprintf("agent%d.%d", slices.Index(ids, e.Agent)+1, count[e.Agent]); e.Label != want {
			f.w.breaks(labelsStay, "entry %d of %s has the label %s, not %s", e.Seq, e.Agent, e.Label, want)
		}
		if owner, taken := owners[e.Label]; taken {
			f.w.breaks(labelsStay, "%s is of %s and of %s", e.Label, owner, e.Agent)
		}
		owners[e.Label] = e.Agent
	}
}

// checkVotes requires that at least as many fresh votes are on record as the result counts.
func (f *facts) checkVotes(r sessionResult, entries []session.Entry) {
	if f.w.settings["peer_visibility"] == "none" {
		return // answers of others make no vote stale while they are hidden
	}
	latest, votes := map[string]int{}, map[string]session.Entry{}
	for _, e := range entries {
		switch e.Action {
		case coordination.NewAnswer:
			if !coordination.IsFinal(e.Label) {
				latest[e.Agent] = e.Step
				delete(votes, e.Agent)
			}
		case coordination.Vote:
			votes[e.Agent] = e
		}
	}
	fresh := map[string]int{}
	for _, v := range votes {
		stale := false
		for agent, step := range latest {
			at := slices.IndexFunc(v.Seen, func(s coordination.Seen) bool { return s.Agent == agent })
			stale = stale || at < 0 || v.Seen[at].Step < step
		}
		if !stale {
			fresh[v.Target]++
		}
	}
	for target, n := range r.Votes {
		if n > fresh[target] && !r.Earlier {
			f.w.breaks(freshVotes, "the result counts %d votes for %s, %d of them are fresh", n, target, fresh[target])
		}
	}
}

// checkReaders requires that the documents tell what the workflow has decided.
func (f *facts) checkReaders(root string, r sessionResult) {
	var status sessionacts.State
	if err := json.Unmarshal(f.w.bucket.objects[root+"status.json"].body, &status); err != nil {
		f.w.breaks(readersSee, "status.json: %v", err)
		return
	}
	if status.Status != r.Status || status.Winner != r.Winner || status.Cost.ModelCalls != r.Cost.ModelCalls {
		f.w.breaks(readersSee, "the run ended %s for %q after %d calls, status.json says %s for %q after %d",
			r.Status, r.Winner, r.Cost.ModelCalls, status.Status, status.Winner, status.Cost.ModelCalls)
	}
	if r.AnswerPath != nil {
		var a artifact.Answer
		o := f.w.bucket.objects[strings.TrimPrefix(*r.AnswerPath, "s3://bucket/")]
		if err := json.Unmarshal(o.body, &a); err != nil || a.Answer != r.Answer {
			f.w.breaks(readersSee, "the answer is %q, %s says %q (%v)", r.Answer, *r.AnswerPath, a.Answer, err)
		}
	}
	events := strings.Count(string(f.w.bucket.objects[root+"events.jsonl"].body), "\n")
	if events != status.Events {
		f.w.breaks(readersSee, "events.jsonl has %d events of %d", events, status.Events)
	}
}

// checkCalls requires that no request is counted twice, and that none of which the product has heard is
// missing.
func (f *facts) checkCalls(u llm.Usage) {
	left, unknown := 0, 0
	for _, r := range f.requests {
		if r.state == "refused" {
			continue
		}
		left++
		if r.by.name == "Draft" && r.by.number < r.by.attempts { // what an earlier attempt has spent is lost with it
			r.forgotten = true
		}
		if r.state != "paid" || r.forgotten || r.by.asked == r && !r.by.done {
			unknown++
		}
	}
	counted := int(u.ModelCalls + u.Repeated)
	if counted > left {
		f.w.breaks(callsCounted, "%d requests left, %d are counted", left, counted)
	}
	if counted < left-unknown {
		f.w.breaks(callsCounted, "%d requests left, %d of them unknown, %d are counted", left, unknown, counted)
	}
}

func (f *facts) creates(string, string, []byte) func(error) { return func(error) {} }

type creation struct{}

var (
	_ = errors.Is
	_ = time.Now
	_ attempt.Failure
)
