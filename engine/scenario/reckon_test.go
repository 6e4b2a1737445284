package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

// The usage of a suspended step is reported by the launch that resumes it only if it was
// unknown; a launch that left nothing does not hide the one before it.
func TestSuspended_unreported(t *testing.T) {
	t.Parallel()
	calls := llm.Usage{ModelCalls: 3}
	for name, tt := range map[string]struct {
		protocol  int
		ends      []Suspended
		from      string
		uncounted bool
	}{
		"reported":             {Protocol, []Suspended{{Token: "t1", Usage: calls}}, "t1", false},
		"unknown":              {Protocol, []Suspended{{Token: "t1"}}, "t1", true},
		"unknown, earlier":     {1, []Suspended{{Token: "t1"}}, "t1", false},
		"reported, then not":   {Protocol, []Suspended{{Token: "t1", Usage: calls}, {Token: "t2"}}, "t2", true},
		"reported, then empty": {Protocol, []Suspended{{Token: "t1", Usage: calls}, {}}, "t1", false},
		"unknown, then empty":  {Protocol, []Suspended{{Token: "t1"}, {}}, "t1", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(tt.protocol, plan(1), nil)
			launch := func() Launch {
				for _, c := range s.Drain() {
					if l, ok := c.(Launch); ok {
						return l
					}
				}
				require.Fail(t, "nothing was launched")
				return Launch{}
			}
			l := launch()
			for _, end := range tt.ends {
				s.Step(Pause{})
				s.Drain()
				end.Launch = l.ID
				s.Step(end)
				s.Step(Resume{})
				l = launch()
			}
			require.Equal(t, tt.from, l.ResumeFrom)
			require.Equal(t, tt.uncounted, l.Uncounted)
		})
	}
}
