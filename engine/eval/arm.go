package eval

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kind is how an arm finds an answer.
type Kind string

// The kinds of arms.
const (
	Single    Kind = "single"     // the first answer of one agent of the team
	Majority  Kind = "majority"   // the vote of first answers
	FirstVote Kind = "first-vote" // the vote of the team's own first answers
	Plain     Kind = "plain"      // a bare completion
	Team      Kind = "team"       // the team's decision
)

// Arm is one way to answer the questions.
type Arm struct {
	Name  string // name as it was given
	Kind  Kind
	K     int    // samples of a majority; 0 for as many as the team's tokens buy
	Other string // file of another team; empty for the evaluated one
}

// DefaultArms are the arms of an evaluation that names none.
const DefaultArms = "single,first-vote,majority:match,team"

// MostSamples bounds the samples of a majority.
const MostSamples = 26

// Match reports whether the number of samples is chosen to cost as many tokens as the team.
func (a Arm) Match() bool { return a.Kind == Majority && a.K == 0 }

// Decides reports whether the arm is the evaluated team.
func (a Arm) Decides() bool { return a.Kind == Team && a.Other == "" }

var unsafe = regexp.MustCompile(`[^a-z0-9]+`)

// Slug returns the name of the arm in the IDs of its sessions.
func (a Arm) Slug() string {
	name := a.Name
	if a.Other != "" {
		name = "team-" + strings.TrimSuffix(filepath.Base(a.Other), filepath.Ext(a.Other))
	}
	return strings.Trim(unsafe.ReplaceAllString(strings.ToLower(name), "-"), "-")
}

// ParseArms reads a list of arms.
func ParseArms(list string) ([]Arm, error) {
	var arms []Arm
	for name := range strings.SplitSeq(list, ",") {
		arm, err := parseArm(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(arms, func(a Arm) bool { return a.Slug() == arm.Slug() }) {
			return nil, fmt.Errorf("the arm %s is named twice, or its file has the name of another one's; leave one out, or rename the file", arm.Name)
		}
		arms = append(arms, arm)
	}
	if slices.ContainsFunc(arms, Arm.Match) && !slices.ContainsFunc(arms, Arm.Decides) {
		return nil, fmt.Errorf("majority:match takes as many samples as the tokens of the team buy; add the arm team, or give a number such as majority:5")
	}
	return arms, nil
}

func parseArm(name string) (Arm, error) {
	arm := Arm{Name: name}
	kind, rest, samples := strings.Cut(name, ":")
	before, file, other := strings.Cut(name, "=")
	switch {
	case samples && Kind(kind) == Majority:
		arm.Kind = Majority
		if rest == "match" {
			return arm, nil
		}
		k, err := strconv.Atoi(rest)
		if err != nil || k < 1 || k > MostSamples {
			return arm, fmt.Errorf("the arm %s: give majority:match or a number of samples from 1 to %d, such as majority:5", name, MostSamples)
		}
		arm.K = k
	case other && Kind(before) == Team && file != "":
		arm.Kind, arm.Other = Team, file
	case slices.Contains([]Kind{Single, FirstVote, Plain, Team}, Kind(name)):
		arm.Kind = Kind(name)
	default:
		return arm, fmt.Errorf("no arm %q; use single, majority:K, majority:match, first-vote, plain, team and team=FILE, separated by commas", name)
	}
	return arm, nil
}
