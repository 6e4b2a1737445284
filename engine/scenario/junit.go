package scenario

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// Suite is a scenario in a report.
type Suite struct {
	Slug    string
	Title   string
	Run     Run
	Problem string // the reason why it did not run to its end; empty if it did
}

type (
	// xmlSuite is a suite, or the root, which contains the suites.
	xmlSuite struct {
		XMLName    xml.Name
		Name       string        `xml:"name,attr"`
		Tests      int           `xml:"tests,attr"`
		Failures   int           `xml:"failures,attr"`
		Errors     int           `xml:"errors,attr"`
		Skipped    int           `xml:"skipped,attr"`
		Time       string        `xml:"time,attr"`
		Timestamp  string        `xml:"timestamp,attr,omitempty"`
		Properties []xmlProperty `xml:"properties>property,omitempty"`
		Suites     []xmlSuite    `xml:"testsuite"`
		Cases      []xmlCase     `xml:"testcase"`
	}
	xmlProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	xmlCase struct {
		Name      string  `xml:"name,attr"`
		Classname string  `xml:"classname,attr"`
		Time      string  `xml:"time,attr"`
		Failure   *xmlWhy `xml:"failure"`
		Error     *xmlWhy `xml:"error"`
		Skipped   *xmlWhy `xml:"skipped"`
		Out       string  `xml:"system-out,omitempty"`
	}
	xmlWhy struct {
		Message string `xml:"message,attr,omitempty"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// JUnit returns a JUnit report: a test suite for each scenario and a test for each
// step. A step without a verdict is an error.
func JUnit(suites []Suite) ([]byte, error) {
	all := xmlSuite{XMLName: xml.Name{Local: "testsuites"}, Name: "conclave scenarios"}
	var took int64
	for _, s := range suites {
		x := s.xml()
		all.Tests += x.Tests
		all.Failures += x.Failures
		all.Errors += x.Errors
		all.Skipped += x.Skipped
		took += s.Run.DurationMS
		all.Suites = append(all.Suites, x)
	}
	all.Time = secondsOf(took)
	body, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the JUnit report: %w", err)
	}
	return append([]byte(xml.Header), append(body, '\n')...), nil
}

func (s Suite) xml() xmlSuite {
	x := xmlSuite{Name: s.Slug, Time: secondsOf(s.Run.DurationMS), Timestamp: s.Run.StartedAt}
	if s.Run.RunID != "" {
		x.Properties = []xmlProperty{{"title", s.Title}, {"run_id", s.Run.RunID}, {"run_number", strconv.Itoa(s.Run.RunNumber)}}
	}
	for _, r := range s.Run.Steps {
		x.add(r.xml(s.Slug))
	}
	if s.Problem != "" {
		x.add(xmlCase{
			Name: "run", Classname: s.Slug, Time: secondsOf(0),
			Error: &xmlWhy{Message: s.Problem, Type: string(Errored)},
		})
	}
	return x
}

func (x *xmlSuite) add(c xmlCase) {
	x.Tests++
	switch {
	case c.Failure != nil:
		x.Failures++
	case c.Error != nil:
		x.Errors++
	case c.Skipped != nil:
		x.Skipped++
	}
	x.Cases = append(x.Cases, c)
}

func (r Result) xml(slug string) xmlCase {
	c := xmlCase{Name: r.ID + " " + r.Title, Classname: slug, Time: secondsOf(r.DurationMS)}
	why := &xmlWhy{Type: string(r.Status)}
	if r.Error != nil {
		why.Message, _, _ = strings.Cut(*r.Error, "\n")
		why.Text = *r.Error
	}
	switch r.Status {
	case Pass:
	case Fail:
		c.Failure = why
	case Errored, Cancelled, Running:
		c.Error = why
	case Skipped:
		c.Skipped = &xmlWhy{Message: "an earlier step did not pass"}
	}
	output := []string{}
	if r.Summary != "" {
		output = append(output, r.Summary)
	}
	for _, path := range r.EvidencePaths {
		output = append(output, "evidence: "+path)
	}
	for _, w := range r.Warnings {
		output = append(output, "warning: "+w)
	}
	c.Out = strings.Join(output, "\n")
	return c
}

func secondsOf(ms int64) string { return fmt.Sprintf("%d.%03d", ms/1000, ms%1000) }
