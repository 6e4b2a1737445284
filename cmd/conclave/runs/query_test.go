package runs

import (
	"context"
	"errors"
	"testing"

	"conclave/cmd/conclave/hall"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
)

// failing is a service that fails the first queries, one with each of these errors.
type failing struct {
	client.Client
	errs  []error
	asked int
}

func (f *failing) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	f.asked++
	if f.asked <= len(f.errs) {
		return nil, f.errs[f.asked-1]
	}
	payloads, err := converter.GetDefaultDataConverter().ToPayloads("here")
	return client.NewValue(payloads), err
}

// A worker that was outrun by the workflow while it replayed it is asked again.
func TestQuery(t *testing.T) {
	t.Parallel()
	outrun := serviceerror.NewQueryFailed("[TMPRL1100] invalid state transition: attempt to handleInitiatedEvent")
	other := serviceerror.NewQueryFailed("unknown queryType state")
	for name, tt := range map[string]struct {
		errs  []error
		asked int
		err   error
	}{
		"at once":       {nil, 1, nil},
		"outrun twice":  {[]error{outrun, outrun}, 3, nil},
		"outrun always": {[]error{outrun, outrun, outrun, outrun, outrun, outrun}, queryTries, outrun},
		"another cause": {[]error{other}, 1, other},
		"out of reach":  {[]error{errors.ErrUnsupported}, 1, errors.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := &failing{errs: tt.errs}
			var got string
			err := Query(t.Context(), &hall.Connection{Client: service}, "s1", "state", &got)
			require.ErrorIs(t, err, tt.err)
			require.Equal(t, tt.asked, service.asked)
			require.Equal(t, err == nil, got == "here")
		})
	}
}
