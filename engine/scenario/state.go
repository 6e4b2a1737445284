package scenario

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/engine/llm"
)

// Status is the status of a step or a run.
type Status string

// The statuses. Only steps can be Skipped or Errored.
const (
	Running   Status = "running"
	Pass      Status = "pass"
	Fail      Status = "fail"
	Skipped   Status = "skipped"
	Errored   Status = "error"
	Cancelled Status = "cancelled"
)

// Protocol is the version of the rules. A State keeps the version with which it was started;
// a run of another version is not continued by this one.
const Protocol = 3

// State is a run: plain data that survives JSON unchanged. It is not safe for concurrent use.
type State struct {
	Protocol int      `json:"protocol"`
	Plan     Plan     `json:"plan"`
	Results  []Result `json:"results"` // results of the ended steps, in the order of Plan.All

	// Earlier maps step ids to the results of the resumed run.
	Earlier map[string]Result `json:"earlier,omitempty"`

	Launched *Launch `json:"launched,omitempty"` // the running step
	Stopped  bool    `json:"stopped,omitempty"`  // its Stop was drained
	Launches int     `json:"launches"`

	// Rest is the execution token that the next launch of the step RestStep resumes; if RestStep
	// is empty, that of the next step to run. Carried is the usage so far.
	Rest      string    `json:"rest,omitempty"`
	RestStep  string    `json:"rest_step,omitempty"`
	Carried   llm.Usage `json:"carried,omitzero"`
	CarriedMS int64     `json:"carried_ms,omitempty"` // working time before the suspensions of the next step
	Continues string    `json:"continues,omitempty"`  // the step whose Rest belongs to an attempt in Earlier
	Uncounted bool      `json:"uncounted,omitempty"`  // Carried lacks the usage of Rest
	AwaySince time.Time `json:"away_since,omitzero"`  // when the model's server ceased to reply to Rest

	// Open lists later steps that had begun when the resumed run was cut off.
	Open []OpenStep `json:"open,omitempty"`

	Messages  []Keep `json:"messages,omitempty"` // messages that are not drained yet
	Said      int    `json:"said,omitempty"`     // number of messages so far
	Heard     int    `json:"heard,omitempty"`    // number of the last message that went to an ended step
	Announced int    `json:"rung,omitempty"`     // number of the last message announced to steps

	Paused     bool      `json:"paused,omitempty"`
	Unrecorded bool      `json:"unsaid,omitempty"` // a result is not recorded
	Halted     bool      `json:"halted,omitempty"` // a step did not pass: only Plan.After is still to run
	Over       bool      `json:"over,omitempty"`
	Finished   bool      `json:"told,omitempty"` // whether Done was drained
	Usage      llm.Usage `json:"usage"`
	Worked     int64     `json:"worked_ms,omitempty"` // time of the steps of this execution
	Spent      llm.Usage `json:"spent,omitzero"`      // usage of the steps of this execution
}

// OpenStep is a step without a recorded result. It continues from the execution token.
type OpenStep struct {
	Step  string `json:"step"`
	Token string `json:"token"`
}

// New starts a run of a checked plan. Earlier are the results of the run that this one resumes.
func New(p Plan, earlier []Result) *State {
	s := &State{Protocol: Protocol, Plan: p, Results: []Result{}, Unrecorded: true}
	for _, r := range earlier {
		if s.Earlier == nil {
			s.Earlier = map[string]Result{}
		}
		s.Earlier[r.ID] = r
		s.Usage = s.Usage.Add(r.Cost)
	}
	s.skipSteps()
	return s
}

// Status returns the status of the run.
func (s *State) Status() Status {
	if !s.Over {
		return Running
	}
	passed, status := 0, Pass
	for _, r := range s.Results {
		switch {
		case r.Status == Cancelled:
			return Cancelled
		case r.Status == Pass:
			passed++
		case r.Status != Skipped || s.Plan.Selects(r.ID):
			status = Fail
		}
	}
	if passed == 0 {
		return Fail
	}
	return status
}

// Step applies an event. It never fails.
func (s *State) Step(event Event) {
	if s.Refuse(event) != nil {
		return
	}
	switch e := event.(type) {
	case Ended:
		if l := s.countEnded(e.Launch, e.Result.Cost); l != nil {
			s.addResult(e.Result)
		}
	case Suspended:
		if l := s.countEnded(e.Launch, e.Usage); l != nil {
			s.suspendStep(l, e)
			s.Carried = s.Carried.Add(e.Usage)
			s.CarriedMS += e.DurationMS
		}
	case Said:
		s.Said++
		s.Messages = append(s.Messages, Keep{Number: s.Said, Text: strings.ToValidUTF8(e.Text, "\uFFFD")})
	case Pause:
		s.Paused = true
	case Resume:
		s.Paused = false
	case Cancel:
		why := "the run was cancelled"
		s.addResult(Result{Status: Cancelled, Error: &why, DurationMS: e.DurationMS})
		s.Paused = false
	}
}

// countEnded counts the usage of a step and returns its launch if the run waits for its result.
func (s *State) countEnded(id string, usage llm.Usage) *Launch {
	l := s.Launched
	if l == nil || l.ID != id {
		return nil
	}
	s.Launched, s.Stopped = nil, false
	s.Usage, s.Spent = s.Usage.Add(usage), s.Spent.Add(usage)
	for i := range s.Results {
		if r := &s.Results[i]; r.ID == l.Step.ID {
			// The step was cancelled, and its result was recorded without this usage.
			r.Cost = r.Cost.Add(usage)
			s.Unrecorded = true
			return nil
		}
	}
	return l
}

// suspendStep keeps the token of a suspended step for the next launch. A step that reported no token leaves
// the one from which it resumed. Without a model call its usage is zero or unknown.
func (s *State) suspendStep(l *Launch, e Suspended) {
	s.RestStep, s.AwaySince = l.Step.ID, e.AwaySince
	switch {
	case e.Token != "":
		s.Rest, s.Uncounted = e.Token, e.Usage.ModelCalls == 0
	default:
		s.Rest, s.Uncounted = l.ResumeFrom, l.Uncounted
	}
}

// Drain returns the commands that are due, each once.
func (s *State) Drain() []Command {
	commands := s.drainMessages()
	if s.Launched != nil && !s.Stopped && (s.Paused || s.HasResult(s.Launched.Step.ID)) {
		s.Stopped = true
		commands = append(commands, Stop{s.Launched.ID})
	}
	if s.Launched == nil && !s.Paused && !s.Over {
		if _, _, limit := s.nextLimits(); limit != "" {
			why := limit + " is used up"
			s.addResult(Result{Status: Errored, Error: &why})
		}
	}
	if s.Unrecorded {
		s.Unrecorded = false
		commands = append(commands, Record{})
	}
	switch {
	case s.Launched != nil || s.Paused && !s.Over: // a paused step may still report its end
	case !s.Over:
		commands = append(commands, s.announceMessages()...)
		commands = append(commands, s.launchNext())
	case !s.Finished:
		s.Finished = true
		commands = append(commands, Done{s.Status()})
	}
	return commands
}

// HasResult reports whether a step has a result.
func (s *State) HasResult(id string) bool {
	return slices.ContainsFunc(s.Results, func(r Result) bool { return r.ID == id })
}

// nextLimits returns the limits of the next step, or the name of a limit that is used up. Steps
// of Plan.After have only their own limits.
func (s *State) nextLimits() (limits Limits, tightened []string, exhausted string) {
	step, part, _ := s.nextStep()
	own, used := step.Limits.remainingLimits(spent{s.CarriedMS, s.Carried})
	if used != "" {
		return own, nil, "the step's " + used
	}
	if part == PartAfter {
		return own, nil, ""
	}
	run, used := s.Plan.Limits.remainingLimits(spent{s.Worked + s.CarriedMS, s.Spent})
	if used != "" {
		return own, nil, "the run's " + used
	}
	limits, tightened = own.withinRun(run)
	return limits, tightened, ""
}

func (s *State) launchNext() Launch {
	s.Launches++
	step, _, _ := s.nextStep()
	l := Launch{ID: "l" + strconv.Itoa(s.Launches), Step: step, Heard: s.Heard}
	if len(s.Open) > 0 && s.Open[0].Step == step.ID {
		s.Rest, s.RestStep, s.Uncounted, s.Open = s.Open[0].Token, step.ID, true, s.Open[1:]
	}
	if s.RestStep == "" || s.RestStep == step.ID {
		l.ResumeFrom, l.Uncounted, l.AwaySince = s.Rest, s.Uncounted && s.Rest != "", s.AwaySince
		s.Rest, s.RestStep, s.AwaySince = "", "", time.Time{}
	}
	l.Limits, l.Tightened, _ = s.nextLimits()
	l.Attempt, l.Since = s.nextAttempt(step.ID)
	for _, r := range slices.Backward(s.Results) {
		if r.Status != Skipped {
			l.Previous = &Previous{ID: r.ID, Status: r.Status}
			break
		}
	}
	s.Launched = &l
	return l
}

// nextAttempt returns the number of a step's next attempt, and the number of the attempt in which
// its conversation began.
func (s *State) nextAttempt(id string) (number, since int) {
	r := Result{}
	r.setAttempts(s.Earlier[id].Attempts, s.Continues == id)
	since, number = r.Span()
	return number, since
}

// Result is how a step ended, with the JSON of result.json.
type Result struct {
	ID            string    `json:"id"`
	Title         string    `json:"title"`
	File          string    `json:"file"`
	Part          Part      `json:"part,omitempty"`
	Status        Status    `json:"status"`
	Flaky         bool      `json:"flaky"` // it passed after a failure
	DurationMS    int64     `json:"duration_ms"`
	EvidencePaths []string  `json:"evidence_paths"`
	Error         *string   `json:"error"`
	Summary       string    `json:"summary"`
	Cost          llm.Usage `json:"cost"` // cost of all attempts
	Attempts      []Attempt `json:"attempts"`
	Warnings      []string  `json:"warnings,omitempty"`
}

func (s *State) nextStep() (step StepRef, part Part, ok bool) {
	all, i := s.Plan.All(), len(s.Results)
	if i >= len(all) {
		return StepRef{}, "", false
	}
	return all[i], s.Plan.partAt(i), true
}

// addResult adds the result of the next step. After the first result that is not a pass, only
// the steps of Plan.After run.
func (s *State) addResult(r Result) {
	step, part, ok := s.nextStep()
	if !ok {
		return
	}
	r.ID, r.Title, r.File, r.Part = step.ID, step.Title, step.File, part
	if r.EvidencePaths == nil {
		r.EvidencePaths = []string{}
	}
	earlier := s.Earlier[step.ID]
	r.Cost = earlier.Cost.Add(s.Carried).Add(r.Cost)
	r.setAttempts(earlier.Attempts, s.Continues == step.ID)
	if s.RestStep == "" || s.RestStep == step.ID {
		s.Rest, s.RestStep, s.AwaySince = "", "", time.Time{}
	}
	s.Carried, s.CarriedMS, s.Heard = llm.Usage{}, 0, s.Announced
	s.Worked += r.DurationMS
	s.Results = append(s.Results, r)
	s.Unrecorded = true
	s.Halted = s.Halted || r.Status != Pass && part != PartAfter
	s.skipSteps()
}

// skipSteps adds the results of the next steps that do not run: steps after one that did not pass,
// steps that are not selected, and steps that passed in the resumed run.
func (s *State) skipSteps() {
	for {
		step, part, ok := s.nextStep()
		if !ok {
			s.Over = true
			return
		}
		skipped := Result{
			ID: step.ID, Title: step.Title, File: step.File, Part: part, Status: Skipped, EvidencePaths: []string{}, Attempts: []Attempt{},
		}
		switch earlier := s.Earlier[step.ID]; {
		case part == PartAfter:
			return
		// A shared browser has ended with the run, and results after a step that did not pass are dropped.
		case part == "" && !s.Halted && earlier.Status == Pass && s.Plan.Browser != BrowserRun:
			earlier.File = step.File
			skipped = earlier
		case s.Halted || part == "" && !s.Plan.Selects(step.ID):
			skipped.Attempts, skipped.Cost = append(skipped.Attempts, earlier.Attempts...), earlier.Cost
		default:
			return
		}
		s.Results = append(s.Results, skipped)
	}
}

// Attempt is one start of a step. In a retried run a step can have several attempts, each
// with its own directory for evidence.
type Attempt struct {
	Status        Status   `json:"status"`
	Error         *string  `json:"error"`
	EvidencePaths []string `json:"evidence_paths"`

	// Continues is set if the attempt continued the conversation of the previous one, whose
	// evidence then counts for it as well.
	Continues bool `json:"continues,omitempty"`
}

// Failed reports whether the attempt ended with a failure, rather than a pass or a cancellation.
func (a Attempt) Failed() bool { return a.Status == Fail || a.Status == Errored }

// setAttempts adds the earlier attempts before that of the result. It marks the result as
// flaky if it passed after a failure.
func (r *Result) setAttempts(before []Attempt, continues bool) {
	r.Attempts = append(slices.Clone(before), Attempt{
		Status: r.Status, Error: r.Error, EvidencePaths: r.EvidencePaths, Continues: continues && len(before) > 0,
	})
	r.Flaky = r.Status == Pass && slices.ContainsFunc(before, Attempt.Failed)
}

// SetEvidence replaces the evidence of a result and of its last attempt.
func (r *Result) SetEvidence(paths []string) {
	r.EvidencePaths = paths
	if n := len(r.Attempts); n > 0 {
		r.Attempts = slices.Clone(r.Attempts)
		r.Attempts[n-1].EvidencePaths = paths
	}
}

// Span returns the number of a result's last attempt, and the number of the attempt in which
// its conversation began.
func (r Result) Span() (since, last int) {
	last = max(1, len(r.Attempts))
	for since = last; since > 1 && r.Attempts[since-1].Continues; since-- {
	}
	return since, last
}
