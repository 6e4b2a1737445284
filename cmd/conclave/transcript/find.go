package transcript

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/artifact"
)

// Agents lists the agents of a session that have taken a step, in byte order.
func Agents(ctx context.Context, store artifact.Store, layout artifact.Layout) ([]string, error) {
	return names(ctx, store, layout.File("agents/"))
}

// Steps lists the numbers of an agent's steps, in order.
func Steps(ctx context.Context, store artifact.Store, layout artifact.Layout, agent string) ([]int, error) {
	dirs, err := names(ctx, store, layout.Agent(agent, ""))
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

// Segment is one directory below steps/ of a pipeline's run.
type Segment struct {
	Number int
	Step   string
}

// Segments lists what steps of a pipeline's run there are, in order.
func Segments(ctx context.Context, store artifact.Store, layout artifact.Layout) ([]Segment, error) {
	dirs, err := names(ctx, store, layout.File("steps/"))
	if err != nil {
		return nil, err
	}
	var segments []Segment
	for _, dir := range dirs {
		number, name, _ := strings.Cut(dir, "-")
		if n, err := strconv.Atoi(number); err == nil && n > 0 && layout.Segment(n, name, "") == layout.File("steps/"+dir+"/") {
			segments = append(segments, Segment{Number: n, Step: name})
		}
	}
	slices.SortFunc(segments, func(a, b Segment) int { return a.Number - b.Number })
	return segments, nil
}

// names lists the directories right below a prefix.
func names(ctx context.Context, store artifact.Store, prefix string) ([]string, error) {
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
	// Keys come in byte order, in which "a-b/x" is before "a/x": names may recur.
	slices.Sort(found)
	return slices.Compact(found), nil
}
