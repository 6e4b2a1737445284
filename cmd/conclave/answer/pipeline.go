package answer

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"conclave/cmd/conclave/hall"
	"conclave/engine/artifact"
	"conclave/engine/text"
)

// stepForm is the form of the directories of a pipeline's steps.
var stepForm = regexp.MustCompile(`^[0-9]{3,}-[a-z][a-z0-9_-]{0,31}$`)

// isLabel reports whether a word can name an answer or a step.
func isLabel(word string) bool { return labelForm.MatchString(word) || stepForm.MatchString(word) }

// findStep returns the files after a step of a pipeline's run. An empty label is the last
// step of an ended run.
func findStep(ctx context.Context, conn *hall.Connection, id, label string) (*found, error) {
	f := &found{layout: artifact.InPipeline(id), store: conn.Store, Run: "pipeline run " + id, Session: id}
	claim, err := artifact.ReadJSON[artifact.Material](ctx, conn.Store, f.layout.File("pipeline.json"))
	if errors.Is(err, artifact.ErrNotFound) {
		return nil, conn.NoRun(id)
	}
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", f.Run, err)
	}
	if f.layout, err = onBase(ctx, conn.Store, f.layout, claim.Base); err != nil {
		return nil, fmt.Errorf("read the base of %s: %w", f.Run, err)
	}
	steps, err := committedSteps(ctx, conn.Store, f.layout)
	if err != nil {
		return nil, fmt.Errorf("look for the steps of %s: %w", f.Run, err)
	}
	if f.Label, err = f.choose(ctx, label, steps); err != nil {
		return nil, err
	}
	return f, f.load(ctx, f.layout.File("steps/"+f.Label+"/action.json"))
}

// committedSteps returns the directories of the steps that have ended, in order.
func committedSteps(ctx context.Context, store artifact.Store, layout artifact.Layout) ([]string, error) {
	var steps []string
	for key, err := range store.List(ctx, layout.File("steps/")) {
		if err != nil {
			return nil, err
		}
		name, file, _ := strings.Cut(strings.TrimPrefix(key, layout.File("steps/")), "/")
		if file == "action.json" {
			steps = append(steps, name)
		}
	}
	slices.SortFunc(steps, byNumber)
	return steps, nil
}

// byNumber orders directories of steps by their numbers, which have three digits or more.
func byNumber(a, b string) int {
	first, _, _ := strings.Cut(a, "-")
	second, _, _ := strings.Cut(b, "-")
	if len(first) != len(second) {
		return len(first) - len(second)
	}
	return strings.Compare(a, b)
}

// choose returns the step that the label names.
func (f *found) choose(ctx context.Context, label string, steps []string) (string, error) {
	if len(steps) == 0 {
		return "", hall.Exitf(hall.ExitUsage, "%s has no finished steps yet", f.Run)
	}
	if slices.Contains(steps, label) {
		return label, nil
	}
	if label != "" {
		return "", hall.Exitf(hall.ExitUsage, "%s has no step %s; it has %s", f.Run, text.Truncate(label, hall.MaxEcho), strings.Join(steps, ", "))
	}
	ended, err := f.store.Exists(ctx, f.layout.File("result.json"))
	if err != nil {
		return "", fmt.Errorf("look for the result of %s: %w", f.Run, err)
	}
	if !ended {
		return "", hall.Exitf(hall.ExitUsage, "%s has not ended yet; name a step: %s", f.Run, strings.Join(steps, ", "))
	}
	return steps[len(steps)-1], nil
}
