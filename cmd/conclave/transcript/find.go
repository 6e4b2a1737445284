package transcript

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/artifact"
)

// agentIDs lists the agents of a session with a step, in byte order.
func agentIDs(ctx context.Context, store artifact.Store, layout artifact.Layout) ([]string, error) {
	return subdirectories(ctx, store, layout.File("agents/"))
}

// stepNumbers lists the numbers of an agent's steps, in order.
func stepNumbers(ctx context.Context, store artifact.Store, layout artifact.Layout, agent string) ([]int, error) {
	dirs, err := subdirectories(ctx, store, layout.Agent(agent, ""))
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, dir := range dirs {
		if n, err := strconv.Atoi(dir); err == nil && n > 0 && fmt.Sprintf("%03d", n) == dir {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers) // 1000 comes before 999 among names
	return numbers, nil
}

// segment is one directory below steps/ of a pipeline's run.
type segment struct {
	Number int
	Step   string
}

// listSegments lists the segments of a pipeline's run, in order.
func listSegments(ctx context.Context, store artifact.Store, layout artifact.Layout) ([]segment, error) {
	dirs, err := subdirectories(ctx, store, layout.File("steps/"))
	if err != nil {
		return nil, err
	}
	var segments []segment
	for _, dir := range dirs {
		number, name, _ := strings.Cut(dir, "-")
		if n, err := strconv.Atoi(number); err == nil && n > 0 && layout.PipelineStep(n, name, "") == layout.File("steps/"+dir+"/") {
			segments = append(segments, segment{Number: n, Step: name})
		}
	}
	slices.SortFunc(segments, func(a, b segment) int { return a.Number - b.Number })
	return segments, nil
}

// subdirectories lists the directories directly below a prefix.
func subdirectories(ctx context.Context, store artifact.Store, prefix string) ([]string, error) {
	var found []string
	for key, err := range store.List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", store.URL(prefix), err)
		}
		name, _, ok := strings.Cut(strings.TrimPrefix(key, prefix), "/")
		if ok && (len(found) == 0 || found[len(found)-1] != name) {
			found = append(found, name)
		}
	}
	// The keys are in byte order, with "a-b/x" before "a/x": names may repeat.
	slices.Sort(found)
	return slices.Compact(found), nil
}
