package member

import (
	"context"
	"encoding/json"
	"fmt"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/step"
	"conclave/engine/team"
)

// read loads an answer from the commit of its step, and says where its files are.
// A text that may be too long to be shown is to lie beside them, if the agent has
// tools to read it with.
func (o *opened) read(ctx context.Context, shown coordination.Shown) (team.Answer, step.Peer, error) {
	commit, err := o.commit(ctx, shown)
	if err != nil {
		return team.Answer{}, step.Peer{}, fmt.Errorf("reading the answer %s: %w", shown.Label, err)
	}
	var answer Answer
	if err := json.Unmarshal(commit.Payload, &answer); err != nil {
		key := o.Layout.Step(shown.Agent, shown.Step, "action.json")
		return team.Answer{}, step.Peer{}, fmt.Errorf("reading the answer %s in %s: %w", shown.Label, key, err)
	}
	manifest, err := artifact.LoadManifest(ctx, o.store, o.Layout, commit.Manifest)
	if err != nil {
		return team.Answer{}, step.Peer{}, fmt.Errorf("reading the files of the answer %s: %w", shown.Label, err)
	}
	peer := step.Peer{Number: shown.Number, Manifest: commit.Manifest}
	if o.Files {
		peer.Text = team.Whole(answer.Answer, o.Window)
	}
	return team.Answer{
		Number: shown.Number, Label: shown.Label, Text: answer.Answer, Files: len(manifest.Files), Step: shown.Step,
		Kept: peer.Text != "",
	}, peer, nil
}

// commit finds the commit of an answer.
func (o *opened) commit(ctx context.Context, shown coordination.Shown) (artifact.Commit, error) {
	if o.Commits != nil {
		return o.Commits(ctx, shown)
	}
	return artifact.ReadJSON[artifact.Commit](ctx, o.store, o.Layout.Step(shown.Agent, shown.Step, "action.json"))
}

// load reads everything that the launch shows.
func (o *opened) load(ctx context.Context) error {
	o.begin()
	for _, shown := range o.Launch.Shown {
		answer, peer, err := o.read(ctx, shown)
		if err != nil {
			return err
		}
		o.place(peer)
		o.task.Answers = append(o.task.Answers, answer)
	}
	if err := o.loadFinal(ctx); err != nil {
		return err
	}
	if err := o.loadPrevious(ctx); err != nil {
		return err
	}
	var numbers []int
	for _, message := range o.Launch.Messages {
		numbers = append(numbers, message.Number)
	}
	var err error
	o.task.Messages, err = messages(ctx, o.store, o.Layout, numbers)
	return err
}

// loadFinal reads the answer that an evaluating step judges. What it has takes
// the place of what its author's earlier answer had.
func (o *opened) loadFinal(ctx context.Context) error {
	if o.Launch.Final == nil {
		return nil
	}
	answer, peer, err := o.read(ctx, *o.Launch.Final)
	if err != nil {
		return err
	}
	o.place(peer)
	o.task.Final = &answer
	return nil
}

// loadPrevious reads what came of the team's previous attempt, and what its
// evaluation asked for. Its files are there until its author has a newer answer.
func (o *opened) loadPrevious(ctx context.Context) error {
	p := o.Launch.Previous
	if p == nil {
		return nil
	}
	answer, peer, err := o.read(ctx, p.Answer)
	if err != nil {
		return err
	}
	if o.placed(peer.Number) {
		answer.Files, answer.Kept = 0, false
	} else {
		o.place(peer)
	}
	key := o.Layout.Step(p.Agent, p.Step, "action.json")
	commit, err := artifact.ReadJSON[artifact.Commit](ctx, o.store, key)
	if err != nil {
		return fmt.Errorf("reading why the team begins again: %w", err)
	}
	var again Again
	if err := json.Unmarshal(commit.Payload, &again); err != nil {
		return fmt.Errorf("reading why the team begins again in %s: %w", key, err)
	}
	o.task.Previous = &team.Previous{Reason: again.Reason, Instructions: again.Instructions, Answer: answer}
	return nil
}

// place has what an answer has mounted, in the place of what others of its agent
// have.
func (o *opened) place(peer step.Peer) {
	for i := range o.peers {
		if o.peers[i].Number == peer.Number {
			o.peers[i] = peer
			return
		}
	}
	if peer.Manifest != "" || peer.Text != "" {
		o.peers = append(o.peers, peer)
	}
}

func (o *opened) placed(number int) bool {
	for _, peer := range o.peers {
		if peer.Number == number {
			return true
		}
	}
	for _, shown := range o.Launch.Shown {
		if shown.Number == number {
			return true
		}
	}
	return false
}
