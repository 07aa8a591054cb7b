#!/usr/bin/env python3
"""Checks the messages of the commits since BASE: subject, and a body that gives a reason.

    commits.py [--root DIR] [--base COMMIT]    all commits from there to HEAD
    commits.py --message FILE                  one message, before it is committed

Exit status 77 (skipped), with the reason, where there is no git, no history or no BASE in it.
"""
import argparse
import pathlib
import re
import subprocess
import sys

BASE = '69e9ab0'
SUBJECT_COLUMNS_MAX = 72
SKIPPED = 77

# The first word after the area. A verb that is missing here is added here.
VERBS = set('''
    abandon abort accept account acknowledge activate adapt add address adjust admit adopt advance advertise align
    allocate allow announce answer append apply arm arrange assert assign attach attempt authenticate avoid balance base
    begin believe bind block book bound branch break bring buffer build bump bundle cache calculate call cancel cap
    capture carry catch chain change charge check choose claim clamp clarify classify clean clear clone close coalesce
    collapse collect combine come commit compare compile complete compress compute condense configure confirm connect
    consider consolidate construct consult consume contain continue convert copy correct count cover create cut deal
    debug decide declare decline decode decouple decrease dedicate deduplicate default defer define delay delegate
    delete deliver demand deny deprecate derive describe deselect destroy detach detect determine dial disable disallow
    discard disconnect discover dispatch display distinguish distribute divert divide do document double drain draw
    drive drop dump duplicate echo edit eliminate emit empty enable encode end enforce enlarge enqueue ensure enter
    enumerate erase establish estimate evict examine except exchange exclude execute exempt exercise exit expand expect
    expire explain export expose express extend extract fail fetch fill filter finalise finalize find finish fit fix
    flag flatten flush fold follow forbid force forget format forward free freeze fuse gather generate get give go grant
    group grow guarantee guard guide halve hand handle harden have hide hoist hold honor honour identify ignore
    implement import improve include increase increment index indicate infer inform inherit initialise initialize inject
    inline insert inspect install instrument integrate intercept introduce invalidate invert invoke isolate issue
    iterate join judge jump keep key kill label land launch lay lead learn lease leave lend let level lift limit link
    list listen load locate lock log look loosen lower make manage map mark mask match measure meet mend mention merge
    migrate mirror mock model move name narrow negotiate normalise normalize note notify number observe obtain offer
    omit open optimise optimize order organise organize overlap override pack pad parallelise park parse partition pass
    patch pause perform permit persist pick pin ping place plan plant play point poll pool populate port
    post postpone prefer
    prefetch prepare present preserve pretend prevent print probe process produce profile promise promote propagate
    propose protect prove provide prune publish pull punish push put qualify query queue quote raise randomise rank rate
    reach react read rearrange rebalance rebase rebuild recall receive recheck reclaim recognise recognize recompute
    reconnect record recover recycle redirect reduce refactor refer refine reflect reformat refresh refuse regenerate
    register reinstate reject relate relax relay release relink reload rely remember remove rename render renew renumber
    reopen reorder reorganise repair repeat replace replay report represent reproduce request require rerun resend
    reserve reset resize resolve respect respond restart restore restrict restructure resume retain rethink retire retry
    retune return retype reuse revert review revise revive rewrite roll rotate round route run sample save say scale
    scan schedule scope score search seed select send separate serialise serialize serve set settle shape share shed
    shift shorten show shrink shuffle shut sign signal silence simplify simulate sit size skip sleep slice slow snapshot
    solve sort spare spawn specify speed spell spend spin split spread stage stamp stand standardise start state stay
    steer step stick stop store stream strengthen stress stretch strip structure submit subscribe substitute subtract
    succeed suggest suit sum summarise summarize supply support suppress suspend swap switch synchronise synchronize tag
    take target teach tear tell terminate test thread throttle throw tidy tie tighten time toggle tolerate touch trace
    track transfer transform translate transmit traverse treat trigger trim trust try tune turn type undo unify unite
    unlink unlock unpack unpin unregister unroll update upgrade use validate vary verify view visit wait wake walk warm
    warn watch weaken weigh widen withdraw withhold work wrap write yield zero'''.split())
MOVES = ('move', 'rename', 'merge')  # whose subject says all

# Commits that are in the history for good. Abbreviated hash: reason.
EXCEPTIONS = {
    '4daa710': 'older than this check',
    'e06c674': 'older than this check',
    '7d3e132': 'landed beside this check',
    '10def50': 'landed beside this check',
    '1df4d7b': 'the area is README, in capitals; landed before that was seen',
}

_SUBJECT = re.compile(r'[a-z0-9][\w./+-]*(?:, [a-z0-9][\w./+-]*)*: (.*)', re.S)
_TRAILER = re.compile(r'[A-Z][\w-]*: ')


def wrong_with(message):
    """The faults of this message, as sentences."""
    subject, *body = message.rstrip('\n').split('\n')
    match = _SUBJECT.fullmatch(subject)
    words = match.group(1).split() if match else []
    if not words:
        yield 'the subject is not "area: imperative"'
    elif words[0] not in VERBS:
        yield f'the subject says "{words[0]}" after the area: begin with a verb in the imperative, lower case ' \
              '(a verb that is missing: VERBS in tests/tidy/commits.py)'
    if len(subject) > SUBJECT_COLUMNS_MAX:
        yield f'the subject has {len(subject)} columns, limit {SUBJECT_COLUMNS_MAX}'
    if ';' in subject:
        yield 'the subject has a ";": one topic per commit'
    if subject.endswith('.'):
        yield 'the subject ends with a full stop'
    if body and body[0].strip():
        yield 'the line below the subject is not empty'
    if any(re.match(r'# ?Conflicts', line) for line in body):
        yield 'the body has a list of conflicts'
    paragraphs = [p for p in re.split(r'\n\s*\n', '\n'.join(body)) if p.strip() and not _TRAILER.match(p.strip())]
    if not paragraphs and not (words and words[0] in MOVES):
        yield 'the body gives no reason'


def git(root, *arguments):
    return subprocess.run(['git', '-C', str(root), *arguments], capture_output=True, text=True, check=False)


def commits_since(root, base):
    """[(hash, message)] of the commits since `base` without merges, or a text that says why there are none."""
    try:
        known = git(root, 'rev-parse', '--verify', '--quiet', f'{base}^{{commit}}')
    except OSError as error:
        return f'git does not run: {error}'
    if known.returncode != 0:
        return f'no commit {base} here: {known.stderr.strip() or "a shallow clone, or another repository"}'
    if git(root, 'merge-base', '--is-ancestor', base, 'HEAD').returncode != 0:
        return f'{base} is not in the history of HEAD'
    log = git(root, 'log', '--no-merges', '--format=%H%n%B%x00', f'{base}..HEAD')
    if log.returncode != 0:
        return f'git log: {log.stderr.strip()}'
    records = [record.strip('\n') for record in log.stdout.split('\0')]
    return [tuple(record.split('\n', 1)) for record in records if record]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--root', default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument('--base', default=BASE)
    parser.add_argument('--message', metavar='FILE')
    options = parser.parse_args(arguments)
    if options.message:
        text = pathlib.Path(options.message).read_text(encoding='utf-8')
        commits = [('message', text)]
    else:
        commits = commits_since(options.root, options.base)
    if isinstance(commits, str):
        print(f'commits: skipped: {commits}')
        return SKIPPED
    count = 0
    for name, message in commits:
        if not any(name.startswith(known) for known in EXCEPTIONS):
            for wrong in wrong_with(message):
                count += 1
                print(f'{name[:9]} {message.splitlines()[0] if message.strip() else ""}\n  {wrong}')
    print(f'commits: {len(commits)} messages, {count} violations')
    return 1 if count else 0


if __name__ == '__main__':
    sys.exit(main())
