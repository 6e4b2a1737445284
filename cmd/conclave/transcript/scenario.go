package transcript

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"conclave/cmd/conclave/hall"
	"conclave/engine/artifact"
	"conclave/engine/step"
	"conclave/engine/text"
)

// findScenario returns the layout of the scenario run with an ID, and reports whether
// there is one. The ID is that of the run or its workflow.
func findScenario(ctx context.Context, store artifact.Store, id string) (layout artifact.Layout, found bool, err error) {
	var slugs []string
	for key, err := range store.List(ctx, "scenarios/") {
		if err != nil {
			return layout, false, fmt.Errorf("look for scenario run %s: %w", id, err)
		}
		parts := strings.SplitN(key, "/", 5)
		if len(parts) < 5 || parts[2] != "runs" || slices.Contains(slugs, parts[1]) {
			continue
		}
		if run := parts[3]; run == id || "scenario-"+parts[1]+"-"+run == id {
			slugs = append(slugs, parts[1])
			layout = artifact.InScenario(parts[1], run)
		}
	}
	if len(slugs) > 1 {
		return layout, false, hall.Exitf(hall.ExitUsage, "the scenarios %s all have a run %s; name one as scenario-%s-%s", strings.Join(slugs, ", "), id, slugs[0], id)
	}
	return layout, len(slugs) == 1, nil
}

// readScenarioStep reads a launch of a step in a scenario's run. If it does not exist, the
// error lists the existing launches.
func readScenarioStep(ctx context.Context, conn *hall.Connection, want request) (shownStep, error) {
	layout, found, err := findScenario(ctx, conn.Store, want.session)
	if err != nil {
		return shownStep{}, err
	}
	if !found {
		return shownStep{}, conn.NoRun(want.session)
	}
	id := want.agent
	if len(id) == 1 {
		id = "0" + id
	}
	launches, steps, err := launchesOf(ctx, conn.Store, layout, id)
	s := shownStep{Agent: "step " + id, Number: want.step}
	switch {
	case err != nil:
		return s, err
	case len(launches) == 0 || want.step > 0 && !slices.Contains(launches, want.step):
		return s, noScenarioStep(conn, want, launches, steps)
	case want.step == 0:
		s.Number = launches[len(launches)-1]
	}
	dir := layout.ScenarioStep(id, s.Number, "")
	if s.Transcript, err = step.ReadTranscript(ctx, conn.Store, layout, dir); err != nil {
		return s, fmt.Errorf("show start %d of step %s of scenario run %s: %w", s.Number, id, want.session, err)
	}
	if last, err := artifact.ReadJSON[artifact.LastAction](ctx, conn.Store, dir+"last_action.json"); err == nil {
		s.Failure = last.Error
	}
	return s, nil
}

// launchesOf returns the launches of a step, and all steps of the run that have launches.
func launchesOf(ctx context.Context, store artifact.Store, layout artifact.Layout, id string) (launches []int, steps []string, err error) {
	dirs, err := subdirectories(ctx, store, layout.Root())
	if err != nil {
		return nil, nil, err
	}
	for _, dir := range dirs {
		step, ok := strings.CutPrefix(dir, "step-")
		if !ok {
			continue
		}
		steps = append(steps, step)
		if step != id {
			continue
		}
		launches = []int{1}
		inner, err := subdirectories(ctx, store, layout.File(dir+"/"))
		if err != nil {
			return nil, nil, err
		}
		for _, name := range inner {
			if n, err := strconv.Atoi(strings.TrimPrefix(name, "launch-")); err == nil && n > 1 {
				launches = append(launches, n)
			}
		}
		slices.Sort(launches)
	}
	return launches, steps, nil
}

// noScenarioStep returns the error for an unknown step or launch.
func noScenarioStep(conn *hall.Connection, want request, launches []int, steps []string) error {
	asked := text.Truncate(want.agent, hall.MaxEcho)
	switch {
	case len(steps) == 0:
		return hall.Exitf(hall.ExitUsage, "scenario run %s has no steps yet; `%s` shows its state", want.session, conn.CommandLine("scenario status", "DIR"))
	case len(launches) == 0:
		return hall.Exitf(hall.ExitUsage, "scenario run %s has no transcript of step %q; it has steps %s", want.session, asked, strings.Join(steps, ", "))
	}
	return hall.Exitf(hall.ExitUsage, "step %s of scenario run %s was started %d times; there is no start %d", asked, want.session, len(launches), want.step)
}
