package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/session/check"
	"conclave/engine/step"
	"conclave/engine/text"
)

// opening is a step with its material loaded. It alone converts between anonymous numbers and
// agent IDs.
type opening struct {
	Step
	store   artifact.Store
	numbers []string // the team's IDs by number - 1

	task      task // the task without Tools and Inbox
	peers     []step.Peer
	papers    []step.Paper
	witnesses []witness
	rules     *rules // nil until the step opens
}

func (o *opening) agentID(number int) (string, bool) {
	if number < 1 || number > len(o.numbers) {
		return "", false
	}
	return o.numbers[number-1], true
}

func (o *opening) openRules(access step.Access) (loop.Rules, []llm.Message, error) {
	t := o.task
	t.Manifest = access.Manifest
	if t.Checklist != nil && o.Files {
		t.Checklist.Read = access.Read
	}
	t.Tools = append(t.Tools, text.Each(access.Tools, func(tool llm.Tool) string { return tool.Name })...)
	if o.Bell != nil {
		t.Inbox = doorbell{opening: o, mount: access.Mount}
	}
	o.rules = newRules(t)
	messages, err := o.rules.Opening()
	return o.rules, messages, err
}

// witnessedSteps returns the material that the agent has been shown so far, by agent ID.
func (o *opening) witnessedSteps() (seen map[string]int, heard int) {
	seen = make(map[string]int)
	if o.rules == nil {
		return seen, 0
	}
	numbers, heard := o.rules.witnessedSteps()
	for number, at := range numbers {
		if id, ok := o.agentID(number); ok {
			seen[id] = at
		}
	}
	return seen, heard
}

// loadTask fills in the task and reads everything that the launch shows.
func (o *opening) loadTask(ctx context.Context) error {
	o.task = o.planTask()
	for _, shown := range o.Launch.Shown {
		a, peer, err := o.readAnswer(ctx, shown)
		if err != nil {
			return err
		}
		o.addPeer(peer)
		o.task.Answers = append(o.task.Answers, a)
	}
	var err error
	if o.task.Checks, err = o.loadChecks(ctx); err != nil {
		return err
	}
	if o.Launch.Final != nil {
		a, peer, err := o.readAnswer(ctx, *o.Launch.Final)
		if err != nil {
			return err
		}
		o.addPeer(peer)
		o.task.Final = &a
	}
	for _, load := range []func(context.Context) error{o.loadPrevious, o.loadReview, o.loadPast, o.mergeMemos} {
		if err := load(ctx); err != nil {
			return err
		}
	}
	var numbers []int
	for _, m := range o.Launch.Messages {
		numbers = append(numbers, m.Number)
	}
	o.task.Messages, err = o.messages(ctx, numbers)
	o.task.marks = o.deriveMarks()
	return err
}

// loadPrevious reads the final answer of the team's previous attempt and its evaluation. It
// mounts the answer's files unless the author has a newer answer.
func (o *opening) loadPrevious(ctx context.Context) error {
	p := o.Launch.Previous
	if p == nil {
		return nil
	}
	a, peer, err := o.readAnswer(ctx, p.Answer)
	if err != nil {
		return err
	}
	if o.hasAnswerOf(peer.Number) {
		a.Kept, a.Replaced = false, true
		if !o.task.Based {
			a.Files = 0
		}
	} else {
		o.addPeer(peer)
	}
	key := o.Layout.Step(p.Agent, p.Step, "action.json")
	commit, err := artifact.ReadJSON[artifact.Commit](ctx, o.store, key)
	if err != nil {
		return fmt.Errorf("read the evaluation that restarts the team: %w", err)
	}
	evaluation, err := decodePayload[restart](commit.Kind, commit.Payload)
	if err != nil {
		return fmt.Errorf("read the evaluation that restarts the team in %s: %w", key, err)
	}
	o.task.Previous = &previous{restart: evaluation, Answer: a}
	return nil
}

// addPeer adds a peer to mount, which replaces an older one of the same agent.
func (o *opening) addPeer(peer step.Peer) {
	if i := o.peerIndex(peer.Number); i >= 0 {
		o.peers[i] = peer
	} else if peer.Manifest != "" || peer.Text != "" {
		o.peers = append(o.peers, peer)
	}
}

// peerIndex returns the index of the agent's peer, or -1.
func (o *opening) peerIndex(number int) int {
	return slices.IndexFunc(o.peers, func(p step.Peer) bool { return p.Number == number })
}

// hasAnswerOf reports whether an answer of the agent is shown or mounted.
func (o *opening) hasAnswerOf(number int) bool {
	return o.peerIndex(number) >= 0 ||
		slices.ContainsFunc(o.Launch.Shown, func(s coordination.Shown) bool { return s.Number == number })
}

// checks are the verdicts of checks on the answers shown. The descriptions were written by
// agents or by the user.
type checks struct {
	Descriptions []string
	Rows         []checkRow
}

// checkRow has the verdicts of all checks on one answer.
type checkRow struct {
	Label    string
	Outcomes []string
}

// maxDescription bounds the description of a check, in bytes.
const maxDescription = 400

func (o *opening) loadChecks(ctx context.Context) (*checks, error) {
	table := o.Launch.Checks
	if table == nil {
		return nil, nil
	}
	c := &checks{}
	for _, id := range table.Checks {
		d, err := artifact.ReadJSON[check.Definition](ctx, o.store, check.Key(o.Layout, id))
		if err != nil {
			return nil, fmt.Errorf("read the check %s: %w", id, err)
		}
		description := d.Name + ": " + d.Command
		c.Descriptions = append(c.Descriptions, text.Truncate(strings.Join(strings.Fields(description), " "), maxDescription))
	}
	for _, row := range table.Rows {
		r := checkRow{Label: row.Label}
		for _, verdict := range row.Verdicts {
			r.Outcomes = append(r.Outcomes, verdictWords[verdict])
		}
		c.Rows = append(c.Rows, r)
	}
	return c, nil
}

// verdictWords are the words for the verdicts of coordination.CheckRow.
var verdictWords = map[rune]string{'1': "passed", '0': "failed", '?': "not run", '.': "not run"}

// withoutMarks returns the checks with the step's marks removed from their descriptions.
func (c *checks) withoutMarks(marks ...string) *checks {
	if c == nil {
		return nil
	}
	shown := &checks{Rows: c.Rows}
	for _, description := range c.Descriptions {
		shown.Descriptions = append(shown.Descriptions, text.Within(description, marks...))
	}
	return shown
}

// doorbell is the inbox of a running step. The bell announces news; the texts are in the
// store.
type doorbell struct {
	*opening
	mount func(context.Context, step.Peer) error
}

var _ inbox = doorbell{}

// news reads the bell. It omits the agent's own answers. Until the bell has been rung in the
// present attempt of the team, it also omits those of earlier attempts.
func (d doorbell) news(ctx context.Context) (news, error) {
	bell, err := d.Bell(ctx)
	if err != nil {
		return news{}, fmt.Errorf("read the doorbell: %w", err)
	}
	earlier := 0
	if d.Launch.Previous != nil {
		earlier = d.Launch.Previous.Number
	}
	n := news{WrapUp: bell.Directive == coordination.WrapUp}
	for _, a := range bell.Answers {
		if a.Agent != d.Launch.Agent && bell.Earlier == earlier {
			n.Arrivals = append(n.Arrivals, arrival{Number: a.Number, Label: a.Label, Step: a.Step, Seq: a.Seq})
		}
	}
	for _, m := range bell.Messages {
		if m.Agent == "" || m.Agent == d.Launch.Agent {
			n.Messages = append(n.Messages, m.Number)
		}
	}
	return n, nil
}

// fetch reads answers and mounts their files in place of their agents' older ones.
func (d doorbell) fetch(ctx context.Context, arrivals []arrival) ([]answer, error) {
	var answers []answer
	for _, arrived := range arrivals {
		id, ok := d.agentID(arrived.Number)
		if !ok {
			return nil, fmt.Errorf("answer %s has no author: the team has %d agents", arrived.Label, len(d.numbers))
		}
		a, peer, err := d.readAnswer(ctx, coordination.Shown{Agent: id, Number: arrived.Number, Label: arrived.Label, Step: arrived.Step})
		if err != nil {
			return nil, err
		}
		if err := d.mount(ctx, peer); err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// readAnswer loads an answer, with its files, from the commit of its step. For an agent with file
// tools it adds a file with the full text if the text may be truncated.
func (o *opening) readAnswer(ctx context.Context, shown coordination.Shown) (answer, step.Peer, error) {
	commit, err := o.readCommit(ctx, shown)
	if err != nil {
		return answer{}, step.Peer{}, fmt.Errorf("read the answer %s: %w", shown.Label, err)
	}
	committed, err := decodePayload[Answer](commit.Kind, commit.Payload)
	if err != nil {
		key := o.Layout.Step(shown.Agent, shown.Step, "action.json")
		return answer{}, step.Peer{}, fmt.Errorf("read the answer %s in %s: %w", shown.Label, key, err)
	}
	change, err := artifact.LoadChange(ctx, o.store, o.Layout, commit.Manifest)
	if err != nil {
		return answer{}, step.Peer{}, fmt.Errorf("read the files of the answer %s: %w", shown.Label, err)
	}
	files := change.Tree(o.Layout.Base())
	o.witnesses = append(o.witnesses, witness{label: shown.Label, token: commit.Token})
	raw := committed.Answer
	if o.Commits == nil { // Commits rewrites paths by the directory's numbers
		committed.Answer = step.Paths{Own: o.placeOf(shown.Number), Files: files, Scratch: o.Scratch}.Rewrite(committed.Answer)
	}
	memo, err := o.readMemo(ctx, shown.Number, files)
	if err != nil {
		return answer{}, step.Peer{}, err
	}
	var data llm.Data
	if s := o.Team.AnswerSchema; s != nil && committed.Data != nil {
		if data, err = s.Read(committed.Data); err == nil { // other programs may write data that do not fit
			committed.Equal = hashParts(data.Canonical)
		}
	}
	digest, err := DigestOf(raw, change, commit.Manifest)
	digest.Data = committed.Equal
	if _, judged := o.Team.JudgeOf(); err == nil && judged {
		var class Class
		class, err = ReadClass(ctx, o.store, o.Layout, digest)
		digest = class.Apply(digest)
	}
	if err != nil {
		return answer{}, step.Peer{}, fmt.Errorf("compare the answer %s: %w", shown.Label, err)
	}
	peer := step.Peer{Number: shown.Number, Manifest: commit.Manifest}
	if o.Files {
		peer.Text = wholeText(committed.Answer, o.Window)
	}
	return answer{
		Number: shown.Number, Label: shown.Label, Text: committed.Answer, Files: len(change.Files) + len(change.Removed), Step: shown.Step,
		Changed: changedFiles(change, o.Layout.Base()),
		Kept:    peer.Text != "", Manifest: commit.Manifest,
		Raw: raw, Digest: digest, Data: data, Saw: seenSteps(o.numbers, commit), Memo: memo,
	}, peer, nil
}

// seenSteps returns the answers that the author of a commit was shown: their steps by agent number.
func seenSteps(ids []string, c artifact.Commit) map[int]int {
	steps := make(map[int]int, len(c.SeenSteps))
	for i, id := range ids {
		if step := c.SeenSteps[id]; step > 0 {
			steps[i+1] = step
		}
	}
	return steps
}

func (o *opening) readCommit(ctx context.Context, shown coordination.Shown) (artifact.Commit, error) {
	if o.Commits != nil {
		return o.Commits(ctx, shown)
	}
	return artifact.ReadJSON[artifact.Commit](ctx, o.store, o.Layout.Step(shown.Agent, shown.Step, "action.json"))
}

// messages reads human messages.
func (o *opening) messages(ctx context.Context, numbers []int) ([]message, error) {
	stored, err := step.ReadMessages(ctx, o.store, o.Layout, numbers)
	var messages []message
	for _, m := range stored {
		messages = append(messages, message{Number: m.Number, Text: m.Text})
	}
	return messages, err
}
