package page

import (
	"encoding/json"
	"fmt"
	"html/template"
	"time"

	"conclave/cmd/conclave/progress"
	"conclave/engine/scenario"
	"conclave/workflows/drive"
)

// journey is a scenario's run as the data of its live page's template.
type journey struct {
	runView
	Live     *Live
	Now      time.Time
	Activity []progress.Activity
	Drawn    []drawnStep
}

// drawnStep is a rendered step.
type drawnStep struct {
	ID   string
	HTML template.HTML
}

// Running reports whether the run is still running.
func (j *journey) Running() bool { return !j.Over() }

// CanRetry reports whether the run can continue from its first step that did not pass.
func (j *journey) CanRetry() bool { return j.Over() && j.Status != scenario.Pass }

// Shown returns the status, or a note that the run is paused.
func (j *journey) Shown() string {
	if j.Paused && j.Running() {
		return drive.Paused
	}
	return string(j.Status)
}

// DrawnScenario is a live page of a scenario's run, rendered from one reading.
type DrawnScenario struct{ j *journey }

// DrawScenario renders a live page of a run. An unchanged step is not rendered again, so its
// evidence is read once.
func DrawScenario(run ScenarioRun, live Live, now time.Time, canvas *Canvas) (DrawnScenario, error) {
	j := &journey{runView: runView{ScenarioRun: run, ID: runID(run.Run), Took: runTime(run.Run, now), Cost: costOfRun(run.Run)}, Live: &live, Now: now, Activity: live.Running}
	for _, s := range run.Steps {
		described, err := json.Marshal(s)
		if err != nil {
			return DrawnScenario{}, fmt.Errorf("draw step %s: %w", s.ID, err)
		}
		id := slug("run", run.Scenario, run.RunID, "step", s.ID)
		html := canvas.drawn[id].html
		if canvas.drawn[id].of != string(described) {
			c := &cutter{limit: maxLive, images: 4 << 20}
			html = canvas.draw(id, "journeystep", c.scenarioStep(run, s), string(described))
		}
		j.Drawn = append(j.Drawn, drawnStep{id, html})
	}
	return DrawnScenario{j}, nil
}

// runTime returns the duration of a run up to now.
func runTime(r scenario.Run, now time.Time) string {
	began, err := time.Parse(time.RFC3339, r.StartedAt)
	if r.Over() || r.Paused || err != nil {
		return milliseconds(r.DurationMS)
	}
	return progress.Clock(now.Sub(began))
}

// Page returns the whole page. Since is the version from which the reader receives changes.
func (d DrawnScenario) Page(since, notice string, failed bool) ([]byte, error) {
	j := *d.j
	j.Live = j.Live.at(since, notice, failed)
	return execute("scenario", &j)
}

// Parts returns the parts of the page.
func (d DrawnScenario) Parts() ([]Part, error) {
	var parts []Part
	for _, section := range [][2]string{{"head", "runhead"}, {"now", "runnow"}, {"steer", "runsteer"}} {
		html, err := execute(section[1], d.j)
		if err != nil {
			return nil, err
		}
		parts = append(parts, Part{ID: section[0], HTML: string(html)})
	}
	for _, s := range d.j.Drawn {
		parts = append(parts, Part{ID: s.ID, Parent: "journey", HTML: string(s.HTML)})
	}
	return parts, nil
}
