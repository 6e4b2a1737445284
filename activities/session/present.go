package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/activity"

	"conclave/activities"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/engine/session"
	"conclave/engine/text"
)

// maxAnswer bounds the length of the answer in a session's result, in bytes.
const maxAnswer = 8 << 10

// Present writes final/<agent>/ with the presented answer or, if none was presented, the winning
// one.
func (a *Activities) Present(ctx context.Context, in PresentInput) (Presented, error) {
	defer activities.Beat(ctx)()
	store := activities.FenceStore(ctx, a.Store, a)
	layout, first, err := a.sessionLayout(ctx, a.memory.rememberingStore(ctx, a.Store), in.Session)
	if err != nil {
		return Presented{}, err
	}
	answer, manifest, err := a.finalAnswer(ctx, layout, in.Decision)
	if err != nil {
		return Presented{}, err
	}
	if err := placeFinal(ctx, store, layout, answer.AgentID, manifest, first == activity.GetInfo(ctx).WorkflowExecution.RunID); err != nil {
		return Presented{}, err
	}
	key := layout.Final(answer.AgentID, "answer.json")
	if err := artifact.PutJSON(ctx, store, key, answer); err != nil {
		return Presented{}, err
	}
	head, truncated := text.Head(answer.Answer, maxAnswer)
	return Presented{Answer: head, Truncated: truncated, Path: a.Store.URL(key), Data: answer.Data}, nil
}

func (a *Activities) finalAnswer(ctx context.Context, layout artifact.Layout, d coordination.Decision) (answer artifact.Answer, manifest string, err error) {
	store := a.memory.rememberingStore(ctx, a.Store)
	shown := coordination.Shown{Agent: d.Winner, Step: d.WinnerStep, Label: d.WinnerLabel}
	if d.Final != nil {
		shown = *d.Final
	}
	source := layout.Step(shown.Agent, shown.Step, "action.json")
	commit, err := artifact.ReadJSON[artifact.Commit](ctx, store, source)
	if err != nil {
		return answer, "", fmt.Errorf("read the final answer: %w", err)
	}
	var said session.Answer
	if err := json.Unmarshal(commit.Payload, &said); err != nil {
		return answer, "", activities.Invalid(fmt.Errorf("read the final answer in %s: %w", source, err))
	}
	// In answer.json the paths of workspaces are rewritten for people.
	document, err := artifact.ReadJSON[artifact.Answer](ctx, store, layout.Step(shown.Agent, shown.Step, "answer.json"))
	switch {
	case err == nil:
		said.Answer = document.Answer
	case !errors.Is(err, artifact.ErrNotFound):
		return answer, "", fmt.Errorf("read the final answer: %w", err)
	}
	return artifact.Answer{
		AgentID: shown.Agent, Answer: said.Answer, Timestamp: commit.Timestamp, Label: coordination.FinalLabelOf(shown.Label), Step: shown.Step, Data: said.Data,
	}, commit.Manifest, nil
}

// placeFinal replaces the files below final/ with those of the answer. Unless the run is the session's first, it
// removes files from an earlier end before, because a directory may take the place of a file.
func placeFinal(ctx context.Context, store artifact.Store, layout artifact.Layout, agent, manifest string, first bool) error {
	c, err := artifact.LoadChange(ctx, store, layout, manifest)
	if err == nil && !first {
		err = clearFinal(ctx, store, layout, agent, c)
	}
	if err == nil && manifest != "" {
		err = fillFinal(ctx, store, layout, agent, c)
	}
	if err != nil {
		return fmt.Errorf("write the files of the final answer: %w", err)
	}
	return nil
}

// fillFinal writes the answer's files. If there is a base, these are only the added and changed
// files and the patch.
func fillFinal(ctx context.Context, store artifact.Store, layout artifact.Layout, agent string, c artifact.Change) error {
	plain := artifact.Manifest{Files: slices.DeleteFunc(slices.Clone(c.Files), func(f artifact.File) bool { return !isPlain(f) })}
	if err := plain.Project(ctx, store, layout, layout.Final(agent, "workspace/")); err != nil {
		return err
	}
	if layout.Base() != nil {
		change, err := snapshot.Patch(ctx, store, layout, c)
		if err == nil {
			err = store.Put(ctx, layout.Final(agent, changePatch), bytes.NewReader(change))
		}
		if err != nil {
			return err
		}
	}
	return artifact.PutJSON(ctx, store, layout.Final(agent, "workspace.json"), c)
}

// isPlain reports whether final/ contains an entry as a file. A file of the base may have a name
// that is too long for a key.
func isPlain(f artifact.File) bool {
	_, err := artifact.EscapePath(f.Path)
	return f.SHA256 != "" && err == nil
}

// changePatch is the name of the patch to the base in final/<agent>/.
const changePatch = "change.patch"

// sessionLayout also returns the ID of the session's first run.
func (a *Activities) sessionLayout(ctx context.Context, store artifact.Store, id string) (layout artifact.Layout, first string, err error) {
	layout = artifact.InBucket(id)
	session, err := artifact.ReadJSON[artifact.Session](ctx, store, layout.File("session.json"))
	if err == nil {
		layout, err = activities.Start(ctx, a.Bases(), layout, session.Material)
	} else if errors.Is(err, artifact.ErrNotFound) {
		err = nil
	}
	return layout, session.FirstRunID, err
}

// clearFinal deletes the files below final/ that the answer will not replace.
func clearFinal(ctx context.Context, store artifact.Store, layout artifact.Layout, agent string, c artifact.Change) error {
	kept := map[string]bool{layout.Final(agent, "answer.json"): true}
	if !c.Empty() {
		kept[layout.Final(agent, "workspace.json")] = true
		kept[layout.Final(agent, changePatch)] = layout.Base() != nil
	}
	for _, f := range c.Files {
		if name, err := artifact.EscapePath(f.Path); err == nil {
			kept[layout.Final(agent, "workspace/"+name)] = isPlain(f)
		}
	}
	var stale []string
	for key, err := range store.List(ctx, layout.File("final/")) {
		if err != nil {
			return err
		}
		if !kept[key] {
			stale = append(stale, key)
		}
	}
	for _, key := range stale {
		if err := store.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}
