package main

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"time"

	"github.com/quoin-io/quoin/examples/internal/lines"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/sdk/source"
)

// A follower is the source: it gives the lines of a family of files. Each read begins anew,
// with nothing but a position.
type follower struct {
	path      string
	poll      time.Duration // how long it waits at the end before it looks again
	maxLine   int           // bytes of a record
	exitAtEnd bool
	tell      func(format string, args ...any) // of what may have cost lines
}

// Read gives the lines behind a position, each with the position behind it.
func (f *follower) Read(ctx context.Context, from source.Position) iter.Seq2[source.Item, error] {
	return func(yield func(source.Item, error) bool) {
		r := &reading{follower: f}
		defer r.close()
		if err := r.begin(ctx, from); err != nil {
			yield(source.Item{}, err)
			return
		}
		for ctx.Err() == nil {
			line, ok, err := r.line()
			switch {
			case err != nil:
				yield(source.Item{}, err)
				return
			case ok && !yield(r.item(line), nil):
				return
			case !ok && r.ended:
				return
			case !ok:
				pause(ctx, f.poll)
			}
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// A reading is one Read: it stands in one file at a time.
type reading struct {
	*follower
	cursor  *cursor
	leaving bool // newer files have data: this one is left at its end
	ended   bool // there is nothing more, and nobody waits
}

func (r *reading) close() {
	if r.cursor != nil {
		r.cursor.close()
	}
}

// item is what a line becomes.
func (r *reading) item(line lines.Line) source.Item {
	record := sdk.Record{Value: line.Value, Headers: []sdk.Header{{Key: lines.HeaderFile, Value: []byte(filepath.Base(r.path))}}}
	if line.EOL != lines.LF {
		record.Headers = append(record.Headers, sdk.Header{Key: lines.HeaderEOL, Value: []byte(line.EOL.String())})
	}
	return source.Item{Records: []sdk.Record{record}, Position: r.cursor.at.encode()}
}

// begin finds the file that a position is in, and stands there; without one it stands at the
// beginning of the oldest. It waits for the first file to be there.
func (r *reading) begin(ctx context.Context, from source.Position) error {
	at := &position{}
	if from != nil {
		var err error
		if at, err = parsePosition(from); err != nil {
			return source.Stop(err)
		}
	}
	for told := false; ctx.Err() == nil; {
		all, err := look(r.path)
		if err != nil {
			return err
		}
		if from != nil {
			found, renamed, err := r.resume(all, at)
			if found || err != nil {
				return err
			}
			if renamed {
				continue
			}
			all = r.lost(all, at, told)
			told = true
		}
		switch opened, err := r.open(all, at); {
		case opened || err != nil:
			return err
		case len(all) > 0: // it was renamed just now
		case r.exitAtEnd && from == nil:
			return source.Stop(fmt.Errorf("%s: %w", r.path, fs.ErrNotExist))
		case r.exitAtEnd:
			r.ended = true
			return nil
		default:
			pause(ctx, r.poll)
		}
	}
	return nil
}

// resume looks for the file of a position under any name. When one was renamed meanwhile, it
// may have been that one.
func (r *reading) resume(all family, at *position) (found, renamed bool, err error) {
	for i := len(all) - 1; i >= 0; i-- { // of two that cannot be told apart the newer one
		if identityOf(all[i].info) != at.id {
			continue
		}
		c, err := open(all[i], at.generation, r.maxLine)
		if c == nil {
			return false, err == nil, err
		}
		if found, err = c.adopt(at); found {
			r.cursor = c
			return true, false, nil
		}
		c.close()
		if err != nil {
			return false, false, err
		}
	}
	return false, false, nil
}

// lost tells that the file of a position is gone or truncated, and returns where to go on: in
// what was written to since.
func (r *reading) lost(all family, at *position, told bool) family {
	for _, m := range all {
		if at.id != (identity{}) && identityOf(m.info) == at.id && !told {
			r.tell("%s was truncated, or replaced: what stood behind offset %d of it and is not in another file is lost", m.path, at.offset)
			told = true
		}
	}
	if !told {
		r.tell("the file that was read last, up to offset %d, is gone: what stood behind that is lost", at.offset)
	}
	return all.since(at.written, r.path)
}

// open stands at the beginning of the oldest of some files. A copy of what was read, as
// copytruncate leaves it, is read from where the original was left.
func (r *reading) open(all family, at *position) (opened bool, err error) {
	if len(all) == 0 {
		return false, nil
	}
	c, err := open(all[0], at.generation, r.maxLine)
	if c == nil || err != nil {
		return false, err
	}
	r.cursor = c
	if at.offset == 0 {
		return true, nil
	}
	c.at.generation++
	if c.name == r.path {
		return true, nil
	}
	copied, err := c.adopt(at)
	if copied {
		c.at.generation++
		r.tell("%s goes on where the file before was left", c.name)
	}
	return true, err
}

// line is the next line, and whether there is one now.
func (r *reading) line() (lines.Line, bool, error) {
	for {
		if r.cursor == nil { // nothing could be opened
			return lines.Line{}, false, nil
		}
		line, ok, err := r.cursor.next()
		if ok || err != nil {
			return line, ok, err
		}
		if r.leaving {
			if line, ok := r.cursor.rest(); ok {
				return line, true, nil
			}
			if err := r.moveOn(); err != nil {
				return lines.Line{}, false, err
			}
			continue
		}
		again, err := r.atEnd()
		if !again || err != nil {
			return lines.Line{}, false, err
		}
	}
}

// atEnd looks what the end of a file means. It reports whether there is more to read.
func (r *reading) atEnd() (again bool, err error) {
	c := r.cursor
	switch truncated, err := c.truncated(); {
	case err != nil:
		return false, err
	case truncated:
		r.tell("%s was truncated: what stood behind offset %d was not read", c.name, c.at.offset)
		c.restart()
		return true, nil
	}
	all, err := look(r.path)
	if err != nil {
		return false, err
	}
	behind := all.behind(c.info, r.path)
	if behind.hasData() {
		r.leaving = true // what the writer wrote here before it moved on is there by now: once more to the end
		return true, nil
	}
	r.ended = r.exitAtEnd
	return false, nil
}

// moveOn goes to the next file.
func (r *reading) moveOn() error {
	all, err := look(r.path)
	if err != nil {
		return err
	}
	behind := all.behind(r.cursor.info, r.path)
	if len(behind) == 0 {
		r.leaving = false // it was there a moment ago
		return nil
	}
	c, err := open(behind[0], r.cursor.at.generation, r.maxLine)
	if c == nil || err != nil {
		return err // renamed just now: look again
	}
	r.cursor.close()
	r.cursor, r.leaving = c, false
	return nil
}
