//go:build simulate

package stagetest_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	sessionacts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/session"
	"conclave/engine/step"
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
	dataFits       = "data of an answer fits its schema"
	picturesShown  = "an agent sees the pictures of its question"
	noSecrets      = "a secret is in no document"
	linearizable   = "creations are linearizable"
	sameReplay     = "a replay is the same run"
	inOrder        = "requests take effect in their order"
	sawWhatItSays  = "a vote has seen what it says"
	filesKept      = "files of a step that is cut off are kept"
	heardOf        = "an accepted message is heard by its agent"
	sameWave       = "agents of a wave are offered the same"
	decidesByVotes = "what decides is on record"
	joinsComplete  = "a join has every branch once"
	endsAtSomeTime = "no run goes on for ever"
	repliedKept    = "an acknowledged reply is never forgotten"
	askedFirst     = "each run of a command that is asked about has an approval of its own"
)

// facts is what has really happened in a run, beside what the product says. It checks the invariants.
type facts struct {
	w         *world
	tokens    map[string]string // of claims and commits, by file and token
	accepted  []session.Entry   // entries that a workflow has asked to record
	commands  map[string]int
	command   int
	requests  []*request
	said      []workflows.Request       // messages whose update was answered
	shown     map[string]map[string]int // by token and agent's name, the newest revision in its requests
	wrote     map[string]string         // by execution, a file that a tool has written
	waves     map[string]string         // what the agents of a round are offered
	pausing   map[*flow]bool            // whether the last request to pause or to resume was to pause
	ended     *flow                     // the run has ended, and nothing has begun since
	history   []porcupine.Operation     // of documents that are written once
	ticks     int64
	replies   []string        // questions whose reply was acknowledged
	evaluated map[string]bool // agents with an evaluation that is complete
	allowed   map[string]bool // questions about commands that people have allowed
	runs      int             // commands that have run
}

func newFacts(w *world) *facts {
	return &facts{
		w: w, tokens: map[string]string{}, commands: map[string]int{}, shown: map[string]map[string]int{}, wrote: map[string]string{},
		waves: map[string]string{}, pausing: map[*flow]bool{}, allowed: map[string]bool{}, evaluated: map[string]bool{},
	}
}

// check checks what has to hold after every step of the schedule.
func (f *facts) check() {
	for run, paused := range f.pausing {
		var state struct {
			Phase  string `json:"phase"`
			Paused bool   `json:"paused"`
		}
		if run.closed || run.killed || run.continues || !f.w.query(run, &state) || state.Phase == "preparing" {
			continue
		}
		delete(f.pausing, run)
		if state.Paused != paused && state.Phase != "done" {
			f.w.breaks(inOrder, "the session is paused: %v, after the last request it is to be: %v", state.Paused, paused)
		}
	}
}

// delivered notes the requests to pause and to resume of a task.
func (f *facts) delivered(run *flow, batch []happening) {
	if run.kind != sessionflow.Type || run.parent != nil {
		return
	}
	for _, h := range batch { // updates run after the signals of their task, and may be refused
		if h.kind == signalled && (h.name == workflows.PauseSignal || h.name == workflows.ResumeSignal) {
			f.pausing[run] = h.name == workflows.PauseSignal
		}
	}
}

// idle is called when nothing happens for a while. Then a run has ended, works, waits for a time, or waits
// for people, who help it.
func (f *facts) idle(time.Duration) {
	root := f.w.temporal.open(f.w.root)
	if root == nil {
		return
	}
	runs := append(root.children(), root)
	if slices.ContainsFunc(runs, func(run *flow) bool {
		return slices.ContainsFunc(run.activities, func(a *job) bool { return !a.closed })
	}) {
		return
	}
	for _, run := range runs {
		if f.w.people.help(run) || slices.ContainsFunc(run.timers, func(t workflow.Settable) bool { return t != nil }) {
			return
		}
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
	return strings.Contains(key, "/ledger/") || strings.Contains(key, "/blobs/sha256/") || strings.HasSuffix(key, ".result.json") ||
		strings.Contains(key, "/questions/") || strings.Contains(key, "/effects/")
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
	case base == "answer.json" && strings.Contains(key, "/agents/") && f.w.settings["answer_schema"] != "":
		if f.w.settings["coordination_mode"] != "decomposition" { // whose parts are texts
			f.checkData(key, after)
		}
	case base == "last_action.json":
		f.leftOff(by, key, after)
		var old, last artifact.LastAction
		if !f.w.frozen && there && json.Unmarshal(before, &old) == nil && json.Unmarshal(after, &last) == nil && last.StepNumber > 0 && old.StepNumber > last.StepNumber {
			f.w.breaks(readersSee, "%s replaced %s of step %d by that of step %d", by, key, old.StepNumber, last.StepNumber)
		}
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

// checkData requires that an answer has data that fit the schema of its team.
func (f *facts) checkData(key string, body []byte) {
	var a artifact.Answer
	schema, err := llm.ReadDataSchema([]byte(verdictSchema))
	if err == nil {
		err = json.Unmarshal(body, &a)
	}
	if err == nil {
		_, err = schema.Read(a.Data)
	}
	if err != nil {
		f.w.breaks(dataFits, "%s: %v: %s", key, err, body)
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
	f.checkSeen(key, c)
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

// checkSeen requires that the answers that a vote has seen were in the requests to its model.
func (f *facts) checkSeen(key string, c artifact.Commit) {
	shown := f.shown[c.Token]
	if c.Kind != string(coordination.Vote) || shown == nil {
		return
	}
	for agent, step := range c.SeenSteps {
		var a artifact.Answer
		f.decode(fmt.Sprintf("%sagents/%s/%03d/answer.json", rootOf(key), agent, step), &a)
		name, revision, _ := strings.Cut(a.Label, ".")
		if n, _ := strconv.Atoi(revision); n > shown[name] {
			f.w.breaks(sawWhatItSays, "%s says that it has seen %s, its model was shown revision %d", key, a.Label, shown[name])
		}
	}
}

var labels = regexp.MustCompile(`\b(agent\d+)\.(\d+)\b`)

// requested notes the answers that a request shows.
func (f *facts) requested(at *execution, req llm.Request) {
	token := at.flow.run + at.id[strings.LastIndex(at.id, "-"):]
	if f.shown[token] == nil {
		f.shown[token] = map[string]int{}
	}
	pictures := 0
	for _, m := range req.Messages {
		for _, image := range m.Images {
			pictures += strings.Count(string(image.Data), picture)
		}
		for _, found := range labels.FindAllStringSubmatch(m.Content, -1) {
			n, _ := strconv.Atoi(found[2])
			f.shown[token][found[1]] = max(f.shown[token][found[1]], n)
		}
	}
	if offers := slices.ContainsFunc(req.Tools, func(t llm.Tool) bool { return t.Name == "new_answer" }); offers && f.w.settings["images"] != "" && pictures != 1 {
		f.w.breaks(picturesShown, "a request of %s has %d of 1 pictures", at, pictures)
	}
}

// refused notes that the store has refused the files of an execution, which are lost if they were its last ones.
func (f *facts) refused(by string) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	delete(f.wrote, by)
}

// leftOff requires that a step that was cut off while its tools worked has left their files.
func (f *facts) leftOff(by, key string, body []byte) {
	var last artifact.LastAction
	if json.Unmarshal(body, &last) != nil || last.Error == nil || last.Error.Type != "Cancelled" || f.wrote[by] == "" {
		return
	}
	dir := path.Dir(key) + "/"
	if !strings.Contains(key, "/steps/") { // that of a session is its agent's
		dir += fmt.Sprintf("%03d/", last.StepNumber)
	}
	if _, committed := f.w.bucket.objects[dir+"action.json"]; committed { // with its files
		return
	}
	partial := dir + "partial.json"
	if !strings.Contains(string(f.w.bucket.objects[partial].body), f.wrote[by]) {
		f.w.breaks(filesKept, "%s wrote %s, which %s does not have", by, f.wrote[by], partial)
	}
}

func (f *facts) blobsOf(key string, c artifact.Change) {
	root := rootOf(key)
	for _, file := range c.Files {
		if file.SHA256 == "" {
			continue
		}
		if _, there := f.w.bucket.objects[root+"blobs/sha256/"+file.SHA256]; !there && !f.w.inBase(root, file.SHA256) {
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
	if in, ok := args[0].(sessionacts.StepInput); ok {
		f.launched(in.Launch, a.flow.now)
	}
	if f.ended != nil && a.flow != f.ended {
		f.ended = nil
	}
}

// launched requires that the agents of a wave that have answered are offered the same, where no setting limits
// an agent by itself.
func (f *facts) launched(l coordination.Launch, at time.Time) {
	for _, key := range []string{"pacing", "fairness_lead_cap_answers", "max_new_answers_per_agent", "max_new_answers_global", "max_steps_per_agent", "team_size", "coordination_mode"} {
		if v, set := f.w.settings[key]; set && v != teamSettings["orchestrator."+key][0] {
			return
		}
	}
	if l.Purpose != coordination.Coordinate || l.ResumeFrom != "" || l.Given == 0 {
		return
	}
	if most, _ := strconv.Atoi(teamSettings["orchestrator.max_steps_per_agent"][0]); l.Round > most {
		return // who has had all its steps is recalled by messages only
	}
	wave := fmt.Sprintf("%d of %d after %d answers at %v", l.Round, len(f.w.temporal.flows), l.Given, at) // who leads may have to wait
	offered := fmt.Sprint(l.Offered)
	if other, there := f.waves[wave]; there && other != offered {
		f.w.breaks(sameWave, "in round %d %s is offered %s, another agent %s", l.Round, l.Agent, offered, other)
	}
	f.waves[wave] = offered
}

// request is a request to a model that has left a process.
type request struct {
	by    *execution
	state string // "", paid, refused, cut
	told  bool   // a heartbeat of the call has reached the server

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

func (f *facts) listRequests() string {
	var b strings.Builder
	for _, r := range f.requests {
		fmt.Fprintf(&b, "\n%s: %s", r.by, cmp.Or(r.state, "no reply"))
		for what, is := range map[string]bool{", told": r.told, ", unknown": !r.known()} {
			if is {
				b.WriteString(what)
			}
		}
	}
	return b.String()
}

// known reports whether the product can know of the request: its attempt has reported its end, or has lived
// to journal the reply, or it has told the server of the call and the next attempt has reported its end.
func (r *request) known() bool {
	at := r.by
	switch {
	case r.forgotten, at.name == "Draft" && (at.number < at.attempts || r.state == "cut"): // a preparation reports the call that has made it
		return false
	case at.done, r.state == "paid" && at.asked != r:
		return true
	}
	return r.state != "paid" && r.told && at.number < at.attempts && at.job.reported == at.attempts
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

// abandoned forgets the last request of each attempt at a step that is cancelled before its next attempt, or whose
// run is terminated. If the store has refused the journal entry of its reply, only the heartbeats, which the server
// keeps to itself, have it.
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
	f.runs++
	if rules := f.w.settings["approvals"]; f.w.root == "s" && (strings.Contains(rules, "deny") || strings.Contains(rules, "ask") && f.runs > len(f.allowed)) {
		f.w.breaks(askedFirst, "%s ran %q, and people have allowed %d calls", who, command, len(f.allowed))
	}
	if f.commands[command]++; f.commands[command] > 1 {
		f.w.breaks(onceRun, "%s ran %q, which had run before", who, command)
	}
}

// answered returns the receiver of an update's answer.
func (f *facts) answered(run *flow, h happening) *testsuite.TestUpdateCallback {
	return &testsuite.TestUpdateCallback{OnComplete: func(_ any, err error) {
		if _, noted := f.pausing[run]; noted && err == nil && (h.name == workflows.PauseSignal || h.name == workflows.ResumeSignal) {
			f.pausing[run] = h.name == workflows.PauseSignal
		}
		if in, ok := h.arg.(workflows.Request); ok && h.name == workflows.SaySignal && err == nil {
			f.said = append(f.said, in)
			f.checkSaid("when it was acknowledged", in)
		}
		if in, ok := h.arg.(workflows.Request); ok && in.Question != "" && err == nil && f.w.root != "j" {
			f.replies = append(f.replies, in.Question)
			f.checkReplies("when it was acknowledged")
		}
	}}
}

func (f *facts) checkReplies(when string) {
	for _, q := range f.replies {
		kept := false
		for key := range f.w.bucket.objects {
			kept = kept || strings.HasSuffix(key, "/questions/"+q+".answer.json")
		}
		if !kept {
			f.w.breaks(repliedKept, "the answer to %s is in no document %s", q, when)
		}
	}
}

// checkSaid requires that messages are in the store. After a reset they may be on their way there a second time.
func (f *facts) checkSaid(when string, said ...workflows.Request) {
	for _, m := range said {
		if f.messageOf(m.Text) == 0 {
			f.w.breaks(saidKept, "%q is in no document %s", m.Text, when)
		}
	}
}

// messageOf returns the number of the message with a text, or 0.
func (f *facts) messageOf(text string) int {
	for _, key := range sortedKeys(f.w.bucket.objects) {
		var m step.Message
		if strings.Contains(key, "/messages/") && json.Unmarshal(f.w.bucket.objects[key].body, &m) == nil && m.Text == text {
			return m.Number
		}
	}
	return 0
}

// checkHeard requires that an agent has received the messages to it, unless a person, the time or the money
// has ended the session, or the others have ended it without the agent.
func (f *facts) checkHeard(r sessionResult) {
	if r.Status != "consensus" && r.Status != "plurality" || f.w.settings["budget"] != "" || f.w.settings["decide_when"] == "quorum" || f.w.settings["max_orchestration_restarts"] != "" {
		return
	}
	for _, m := range f.said {
		gone := slices.Contains(r.Cut, m.Agent) || slices.ContainsFunc(r.Failed, func(a coordination.FailedAgent) bool { return a.ID == m.Agent })
		presents := f.w.settings["final_answer_strategy"] != "" && (m.Agent == r.Winner || r.PresentedBy != nil && m.Agent == *r.PresentedBy)
		if m.Agent == "" || gone || presents { // who presents may have committed already
			continue
		}
		heard := 0
		for key, o := range f.w.bucket.objects {
			var c artifact.Commit
			if strings.Contains(key, "/agents/"+m.Agent+"/") && path.Base(key) == "action.json" && json.Unmarshal(o.body, &c) == nil {
				heard = max(heard, c.Heard)
			}
		}
		if n := f.messageOf(m.Text); heard < n {
			f.w.breaks(heardOf, "message %d to %s, which has heard %d", n, m.Agent, heard)
		}
	}
}

// checkDecision requires that what a decision says of its votes can be.
func (f *facts) checkDecision(r sessionResult) {
	votes := 0
	for _, n := range r.Votes {
		votes += n
	}
	if votes == 0 && len(r.Failed) > 0 && len(r.Failed) == r.Agents && r.Status != "failed" {
		f.w.breaks(decidesByVotes, "every agent has failed and nobody has voted, and the session ended %s", r.Status)
	}
	if r.Status == "plurality" && len(r.Failed)+len(r.Cut) == 0 && votes > 0 && (votes < r.Agents || r.Agents < len(f.w.agents())) {
		f.w.breaks(decidesByVotes, "a split vote decides with %d votes of %d agents, of %d that could join", votes, r.Agents, len(f.w.agents()))
	}
	f.checkScores(r, votes)
	least, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimPrefix(f.w.settings["act_when"], `{"min_support": `), "}"), 64)
	if r.Status == "undecided" && r.DecidedBy == coordination.ByQuorum && float64(r.Votes[r.Winner]+len(r.Cut)) >= least*float64(r.Agents) {
		f.w.breaks(decidesByVotes, "undecided with %d of %d votes, and %d agents were cut off that could have voted", r.Votes[r.Winner], r.Agents, len(r.Cut))
	}
}

// checkScores requires that of answers without votes that are all evaluated the best is elected.
func (f *facts) checkScores(r sessionResult, votes int) {
	best, all := 0, true
	for _, id := range f.w.agents() {
		all = all && f.evaluated[id]
		best = max(best, scoreOf[id])
	}
	if all && r.Status == "finished" && votes == 0 && len(r.Failed) == 0 && f.w.settings["ballot"] != "checks_decide" && scoreOf[r.Winner] < best {
		f.w.breaks(decidesByVotes, "without votes the answer of %s is elected, which has %d of %d points", r.Winner, scoreOf[r.Winner], best)
	}
}

// checkTranscripts requires that the transcript of every commit is there.
func (f *facts) checkTranscripts() {
	for key, o := range f.w.bucket.objects {
		var c artifact.Commit
		if path.Base(key) != "action.json" || json.Unmarshal(o.body, &c) != nil || c.Transcript == "" {
			continue
		}
		if _, there := f.w.bucket.objects[rootOf(key)+"blobs/sha256/"+c.Transcript]; !there && artifact.SumOf(f.w.bucket.objects[path.Dir(key)+"/transcript.jsonl"].body) != c.Transcript {
			f.w.breaks(blobsThere, "the transcript that %s names is gone", key)
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
	f.checkSaid("at the end", f.said...)
	f.checkReplies("at the end")
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
	f.checkLastActions(root, entries)
	f.checkHeard(result)
	f.checkDecision(result)
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
	if f.w.settings["peer_visibility"] == "none" || f.w.settings["max_orchestration_restarts"] != "" {
		return // hidden answers make no vote stale, nor do those before a restart, which the ledger does not have
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
		if err := json.Unmarshal(o.body, &a); err != nil || a.Answer != r.Answer || !sameValue(a.Data, r.Data) {
			f.w.breaks(readersSee, "the answer is %q %s, %s says %q %s (%v)", r.Answer, r.Data, *r.AnswerPath, a.Answer, a.Data, err)
		}
	}
	events := strings.Count(string(f.w.bucket.objects[root+"events.jsonl"].body), "\n")
	if events != status.Events {
		f.w.breaks(readersSee, "events.jsonl has %d events of %d", events, status.Events)
	}
}

// sameValue reports whether two JSON texts differ at most in their white space.
func sameValue(a, b json.RawMessage) bool {
	var first, second bytes.Buffer
	if len(a)+len(b) == 0 {
		return true
	}
	return json.Compact(&first, a) == nil && json.Compact(&second, b) == nil && first.String() == second.String()
}

// checkLastActions requires that last_action.json is of an agent's newest accepted step, or of a later one, which may
// have no number.
func (f *facts) checkLastActions(root string, entries []session.Entry) {
	newest := map[string]int{}
	for _, e := range entries {
		if e.Step > 0 {
			newest[e.Agent] = e.Step
		}
	}
	for agent, step := range newest {
		var last artifact.LastAction
		if json.Unmarshal(f.w.bucket.objects[root+"agents/"+agent+"/last_action.json"].body, &last) != nil || last.StepNumber < step && last.StepNumber > 0 {
			f.w.breaks(readersSee, "last_action.json of %s is of step %d, step %d was accepted", agent, last.StepNumber, step)
		}
	}
}

// checkCalls requires that no request is counted twice, and that none of which the product has heard is
// missing.
func (f *facts) checkCalls(u llm.Usage) {
	left, unknown, perhaps := 0, 0, 0
	for _, r := range f.requests {
		if r.state == "refused" {
			if r.told && !r.by.done { // of which the product has heard, but not of its end
				perhaps++
			}
			continue
		}
		left++
		if !r.known() {
			unknown++
		}
	}
	if slices.ContainsFunc(f.w.temporal.flows, (*flow).leftReckoning) {
		unknown = left
	}
	if counted := int(u.ModelCalls + u.Repeated); counted > left+perhaps || counted < left-unknown {
		f.w.breaks(callsCounted, "%d requests left, %d of them unknown, %d are counted, %d of them as repeated:%s", left, unknown, counted, u.Repeated, f.listRequests())
	}
}
