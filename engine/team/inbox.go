package team

import (
	"context"
	"fmt"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/step"
)

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
		return news{}, fmt.Errorf("reading the doorbell: %w", err)
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
		id, ok := d.id(arrived.Number)
		if !ok {
			return nil, fmt.Errorf("answer %s has no author: the team has %d agents", arrived.Label, len(d.numbers))
		}
		a, peer, err := d.read(ctx, coordination.Shown{Agent: id, Number: arrived.Number, Label: arrived.Label, Step: arrived.Step})
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

// read loads an answer, with its files, from the commit of its step. For an agent with file
// tools it adds a file with the full text if the text may be truncated.
func (o *opening) read(ctx context.Context, shown coordination.Shown) (answer, step.Peer, error) {
	commit, err := o.commit(ctx, shown)
	if err != nil {
		return answer{}, step.Peer{}, fmt.Errorf("reading the answer %s: %w", shown.Label, err)
	}
	committed, err := decode[Answer](commit.Kind, commit.Payload)
	if err != nil {
		key := o.Layout.Step(shown.Agent, shown.Step, "action.json")
		return answer{}, step.Peer{}, fmt.Errorf("reading the answer %s in %s: %w", shown.Label, key, err)
	}
	change, err := artifact.LoadChange(ctx, o.store, o.Layout, commit.Manifest)
	if err != nil {
		return answer{}, step.Peer{}, fmt.Errorf("reading the files of the answer %s: %w", shown.Label, err)
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
	digest, err := DigestOf(raw, change, commit.Manifest)
	if _, judged := o.Team.JudgeOf(); err == nil && judged {
		var class Class
		class, err = ReadClass(ctx, o.store, o.Layout, digest)
		digest = class.Apply(digest)
	}
	if err != nil {
		return answer{}, step.Peer{}, fmt.Errorf("comparing the answer %s: %w", shown.Label, err)
	}
	peer := step.Peer{Number: shown.Number, Manifest: commit.Manifest}
	if o.Files {
		peer.Text = wholeText(committed.Answer, o.Window)
	}
	return answer{
		Number: shown.Number, Label: shown.Label, Text: committed.Answer, Files: len(change.Files) + len(change.Removed), Step: shown.Step,
		Changed: changedFiles(change, o.Layout.Base()),
		Kept:    peer.Text != "", Manifest: commit.Manifest,
		Raw: raw, Digest: digest, Saw: saw(o.numbers, commit), Memo: memo,
	}, peer, nil
}

// saw returns the answers that the author of a commit was shown: their steps by agent number.
func saw(ids []string, c artifact.Commit) map[int]int {
	steps := make(map[int]int, len(c.SeenSteps))
	for i, id := range ids {
		if step := c.SeenSteps[id]; step > 0 {
			steps[i+1] = step
		}
	}
	return steps
}

func (o *opening) commit(ctx context.Context, shown coordination.Shown) (artifact.Commit, error) {
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
