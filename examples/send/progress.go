package main

import (
	"io"
	"os"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// A progress is a bar of the bytes read, or nothing when nobody looks. It has no colours,
// so there is nothing for NO_COLOR to turn off.
type progress struct {
	container *mpb.Progress // nil for no bar
	bar       *mpb.Bar
}

// newProgress draws a bar if w is a terminal that can move its cursor.
func newProgress(w io.Writer, sources []*source) *progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return &progress{}
	}
	p := &progress{container: mpb.New(mpb.WithOutput(f), mpb.WithWidth(40))}
	rate := mpb.AppendDecorators(decor.AverageSpeed(decor.SizeB1000(0), "% .1f"))
	if total := totalSize(sources); total >= 0 {
		// A bar that is given its total at once is over when all is read. This one is to
		// stay until stop, as reports that come later are only shown together with it.
		p.bar = p.container.AddBar(0,
			mpb.PrependDecorators(decor.CountersKiloByte("% .1f / % .1f"), decor.Percentage(decor.WCSyncSpace)), rate)
		p.bar.SetTotal(total, false)
	} else {
		p.bar = p.container.AddSpinner(0, mpb.PrependDecorators(decor.CurrentKiloByte("% .1f")), rate)
	}
	return p
}

// totalSize is how much will be read, or -1 when nobody knows.
func totalSize(sources []*source) int64 {
	var total int64
	for _, src := range sources {
		if src.size < 0 {
			return -1
		}
		total += src.size
	}
	return total
}

// above returns where to write so that text stands above the bar.
func (p *progress) above(w io.Writer) io.Writer {
	if p.container == nil {
		return w
	}
	return &aboveBar{p.container, w}
}

// aboveBar writes above the bar, and past it once it is gone.
type aboveBar struct {
	container *mpb.Progress
	plain     io.Writer
}

func (a *aboveBar) Write(p []byte) (int, error) {
	if n, err := a.container.Write(p); err == nil {
		return n, nil
	}
	return a.plain.Write(p)
}

// reader counts what is read through it.
func (p *progress) reader(r io.Reader) io.Reader {
	if p.container == nil {
		return r
	}
	return &counted{r, p.bar}
}

type counted struct {
	io.Reader
	bar *mpb.Bar
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bar.IncrBy(n)
	return n, err
}

// stop leaves the bar as it stands and waits for the goroutines that draw it.
func (p *progress) stop() {
	if p.container == nil {
		return
	}
	p.bar.Abort(false)
	p.container.Wait()
}
