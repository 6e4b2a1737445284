//go:build simulate

package stagetest_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"conclave/engine/coordination"
	"conclave/workflows"
)

// people send requests to the runs, and break things: a strike may follow every call.
type people struct {
	w          *world
	strikes    int
	said       int
	updates    int
	resumes    int // of ended runs
	modelsAway map[string]time.Time
}

// maxStrikes bounds the strikes in a run.
const maxStrikes = 25

func newPeople(w *world) *people { return &people{w: w, modelsAway: map[string]time.Time{}} }

var strikes = []option{
	{"kill", 0.8},
	{"freeze 12s", 0.6},
	{"freeze 1m30s", 0.8},
	{"freeze 10m", 0.3},
	{"leave", 0.5},
	{"sever 15s", 0.5},
	{"sever 2m", 0.5},
	{"store away 20s", 0.3},
	{"store away 3m", 0.2},
	{"model away 30s", 0.3},
	{"model away 4m", 0.3},
	{"clock 1m30s", 0.2},
	{"clock -1m30s", 0.2},
	{"say", 0.8},
	{"say to one", 0.4},
	{"pause", 0.6},
	{"pause and resume", 0.3},
	{"resume", 0.2},
	{"finish", 0.2},
	{"retry", 0.4},
	{"cancel", 0.15},
	{"reply", 0.8},
	{"hold", 0.3},
	{"terminate", 0.2},
	{"reset", 0.3},
	{"continue as new", 0.4},
}

// strike decides what happens after a call has returned.
func (p *people) strike(at string, proc *process) {
	if p.strikes >= maxStrikes {
		return
	}
	what := p.w.choose("after "+at, strikes...)
	if what == "" {
		return
	}
	p.strikes++
	kind, rest, _ := strings.Cut(what, " ")
	d, _ := time.ParseDuration(rest[strings.LastIndex(rest, " ")+1:])
	if proc != nil {
		// Only after what the call's return has made the process send.
		p.w.after(0, proc.name+" is struck", func() { p.strikeProcess(proc, kind, d) })
	}
	switch {
	case slices.Contains([]string{"kill", "freeze", "leave", "sever", "clock"}, kind):
	case strings.HasPrefix(what, "store away"):
		p.w.bucket.away = time.Now().Add(d)
	case strings.HasPrefix(what, "model away"):
		p.modelsAway[p.w.anyAgent(at)] = time.Now().Add(d)
	default:
		p.request(what, at)
	}
}

func (p *people) strikeProcess(proc *process, kind string, d time.Duration) {
	if proc.held() {
		return
	}
	switch kind {
	case "kill":
		p.kill(proc)
	case "freeze":
		p.w.frozen = true
		proc.freeze(d)
	case "leave":
		if !proc.leaving {
			proc.leave()
			p.replace()
		}
	case "sever":
		proc.severed = time.Now().Add(d)
	case "clock":
		proc.ahead, proc.skew = time.Now(), d
	}
}

// kill ends a process. Sooner or later another one takes its place.
func (p *people) kill(proc *process) {
	proc.kill()
	if p.w.pick(proc.name+" is missed", "after its heartbeats", "at once") == "at once" {
		p.w.after(time.Second, proc.name+" is found dead", func() { p.w.temporal.lose(proc) })
	}
	p.replace()
}

func (p *people) replace() {
	p.w.after(2*time.Second, "a new process", func() { p.w.startProcess() })
}

// request sends a request to the run that is open.
func (p *people) request(what, at string) {
	f := p.w.temporal.open(p.w.root)
	if f == nil {
		return
	}
	switch what {
	case "continue as new":
		if !f.forced { // its history says when
			f.env.SetContinueAsNewSuggested(true)
			f.continues = true
		}
	case "hold":
		p.hold(f)
	case "reply":
		if view, ok := p.w.view(f); ok && len(view.Questions) > 0 {
			p.reply(f, at, view.Questions)
		}
	case "terminate":
		f.terminate()
		p.goOn(f)
	case "reset":
		p.reset(f, at)
	case "cancel":
		f.receive(happening{kind: cancelled})
	case "pause":
		p.send(f, at, workflows.PauseSignal, nil)
		p.later(time.Minute, workflows.ResumeSignal)
	case "pause and resume":
		f.receive(happening{kind: signalled, name: workflows.PauseSignal, arg: workflows.Request{}})
		f.receive(happening{kind: signalled, name: workflows.ResumeSignal, arg: workflows.Request{}})
	case "resume", "finish", "retry":
		p.send(f, at, what, nil)
	case "say":
		p.said++
		p.send(f, at, workflows.SaySignal, workflows.Request{Text: p.text()})
	case "say to one":
		p.said++
		p.send(f, at, workflows.SaySignal, workflows.Request{Text: p.text(), Agent: p.w.anyAgent(at)})
	}
}

// hold pauses the oldest running step's activity, as an operator does; it is released with its next attempt.
func (p *people) hold(f *flow) {
	for _, a := range f.activities {
		if at := a.current; at != nil && a.options.ActivityID != "" && !at.proc.held() {
			at.cancel(activity.ErrActivityPaused)
			return
		}
	}
}

func (p *people) text() string { return fmt.Sprintf("message %d", p.said) }

// send sends a verb as an update or as a signal.
func (p *people) send(f *flow, at, verb string, input any) {
	if input == nil {
		input = workflows.Request{}
	}
	kind := updated
	if p.w.pick(at+", "+verb+" by", "update", "signal") == "signal" {
		kind = signalled
	}
	f.receive(happening{kind: kind, name: verb, arg: input})
}

// later sends a verb to whatever run is open then.
func (p *people) later(d time.Duration, verb string) {
	p.w.after(d, "later "+verb, func() {
		if f := p.w.temporal.open(p.w.root); f != nil {
			p.send(f, "later", verb, nil)
		}
	})
}

// reset replaces a run by one that has learned the first part of what it has, with the results of activities.
func (p *people) reset(f *flow, at string) {
	if len(f.history) == 0 || f.forced || f.parent != nil {
		return
	}
	parts := map[string]int{"the middle": 2, "the beginning": 4, "the end": 1}
	n := max(1, len(f.history)/parts[p.w.pick(at+", reset to", "the middle", "the beginning", "the end")])
	if f.childFrom > 0 {
		n = min(n, f.childFrom-1)
	}
	if n == 0 {
		return
	}
	kept, lost := f.history[:n:n], append(slices.Clone(f.history[n:]), task{batch: f.ready}) // what has arrived is in the history, too
	f.terminate()
	p.w.facts.reset(f, kept)
	next := p.w.temporal.begin(f.kind, f.id, f.input, f.first, nil, kept)
	next.before = f
	for _, t := range lost { // signals and updates are applied again
		for _, h := range t.batch {
			if h.kind == signalled || h.kind == updated {
				next.receive(h)
			}
		}
	}
}

// update delivers an update to the workflow and notes the answer.
func (p *people) update(f *flow, h happening) {
	root := f
	if f.parent != nil {
		root = f.parent
	}
	answer := p.w.facts.answered(f, h)
	p.updates++ // those with the same ID are one
	_ = root.env.UpdateWorkflowByID(f.id, h.name, fmt.Sprint("update ", p.updates), answer, h.arg)
}

// goOn continues a run that has ended without a decision, a few times.
func (p *people) goOn(f *flow) {
	if f.parent != nil || p.resumes == 3 || p.w.resumed == nil {
		return
	}
	p.resumes++
	if p.w.pick(fmt.Sprintf("%safter its end", f.prefix), "it is gone on with", "it is left alone") == "it is left alone" {
		return
	}
	p.w.after(5*time.Second, f.prefix+"goes on", func() {
		if p.w.temporal.open(f.id) == nil {
			p.w.temporal.begin(f.kind, f.id, p.w.resumed(), "", nil, nil)
		}
	})
}

// reply answers an open question, once or twice, now and perhaps again later. Nobody lets a call run once more
// that may have happened.
func (p *people) reply(f *flow, at string, open []coordination.Question) {
	q := open[len(open)-1]
	in := workflows.Request{Question: q.QuestionID, Option: 1}
	verb := workflows.ReplySignal
	switch allow := q.QuestionKind == coordination.AskApproval; {
	case q.QuestionKind == coordination.AskUnknown:
		in.Option = 3
	case q.TakesOption():
	case allow:
		allow = p.w.pick(at+", may it run", "yes", "no") == "yes"
		in.Option, in.Allow, verb = 0, &allow, workflows.ApproveSignal
		if allow {
			p.w.facts.allowed[q.QuestionID] = true
		}
	}
	p.send(f, at, verb, in)
	if p.w.pick(at+", is the reply doubled", "no", "no", "yes") == "yes" {
		p.send(f, at, verb, in)
		p.w.after(time.Minute, "a late reply", func() {
			if f := p.w.temporal.open(p.w.root); f != nil {
				p.send(f, "late", verb, in)
			}
		})
	}
}

// help does what a run waits for, if only people can do it. It reports whether there was anything.
func (p *people) help(f *flow) bool {
	view, ok := p.w.view(f)
	switch {
	case !ok:
		return false
	case view.Paused:
		p.send(f, "help", workflows.ResumeSignal, nil)
	case len(view.Questions) > 0:
		p.reply(f, "help", view.Questions)
	case view.Parked != nil:
		verb := p.w.pick("what people do for a parked run", "retry", "cancel", "finish")
		if verb == "cancel" {
			f.receive(happening{kind: cancelled})
		} else {
			p.send(f, "help", verb, nil)
		}
	case len(view.Calls) > 0:
		var results []coordination.ToolResult
		for _, c := range view.Calls {
			results = append(results, coordination.ToolResult{ID: c.ID, Content: "the caller's result"})
		}
		p.send(f, "help", workflows.ToolResultsSignal, workflows.Request{Results: results})
	default:
		return false
	}
	return true
}
