"""Lesson in a real browser: the chapters, their questions, and links that open the model on a sentence."""

import json

import pytest
from browser import AXE, CHROMIUM, CODES, LOOKS, Browser

from dragoman.studio.lab_and_course import CodeBlock, FigureBlock, QuizBlock, Text, load_course

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

CODES |= {"[": 219, "]": 221}
TITLE = "document.querySelector('h2')?.innerText"


def plain(text: Text) -> str:
    return "".join(span.text for span in text)


def opened(browser: Browser, address: str, chapter: int = 0) -> None:
    page, _, token = address.partition("#")
    browser.request("Page.navigate", url="about:blank")
    browser.events.clear()
    browser.request("Page.navigate", url=f"{page}#{token}&view=lesson{f'&chapter={chapter}' if chapter else ''}")
    browser.until("document.querySelector('.list, article') !== null")


def press(browser: Browser, *keys: str) -> None:
    browser.run("document.activeElement.blur()")
    browser.press(*keys)


def test_every_chapter_is_shown_with_its_code_figures_and_questions(browser: Browser, address: str) -> None:
    opened(browser, address)
    chapters = load_course().chapters
    titles = browser.run("[...document.querySelectorAll('.list button')].map((one) => one.innerText)")
    assert titles == [chapter.title for chapter in chapters]
    for number, chapter in enumerate(chapters, start=1):
        press(browser, "]")
        browser.until(f"{TITLE} === {chapter.title!r}")
        assert f"chapter={number}" in browser.run("location.hash")
        codes = browser.run("[...document.querySelectorAll('pre')].map((one) => one.textContent)")
        assert codes == [block.code.rstrip() for block in chapter.blocks if isinstance(block, CodeBlock)]
        quizzes = [block for block in chapter.blocks if isinstance(block, QuizBlock)]
        questions = browser.run("[...document.querySelectorAll('.quiz .question')].map((one) => one.textContent)")
        assert questions == [plain(quiz.question) for quiz in quizzes]
        choices = browser.run("[...document.querySelectorAll('.quiz button span')].map((one) => one.textContent)")
        assert choices == [plain(choice) for quiz in quizzes for choice in quiz.choices]
        assert all(plain(quiz.reason) not in browser.text("article") for quiz in quizzes)
        num_figures = sum(isinstance(block, FigureBlock) for block in chapter.blocks)
        assert browser.run("document.querySelectorAll('.figure .plot').length") >= num_figures
    press(browser, "[")
    browser.until(f"{TITLE} === {chapters[-2].title!r}")
    press(browser, "Escape")
    browser.until("document.querySelector('.list') !== null")
    assert browser.complaints == []
    assert all(url.startswith(("http://127.0.0.1:", "about:")) for url in browser.requested)


def test_the_reason_comes_with_the_right_choice(browser: Browser, address: str) -> None:
    opened(browser, address, 6)
    quiz = next(block for block in load_course().chapters[5].blocks if isinstance(block, QuizBlock))
    wrong = (quiz.answer + 1) % len(quiz.choices)
    group = "document.querySelector('.quiz')"
    for choice in (wrong, wrong, quiz.answer, (wrong + 1) % len(quiz.choices)):
        browser.run(f"{group}.querySelectorAll('button')[{choice}].click()")
        if choice == wrong:
            browser.until(f"/choose again/.test({group}.querySelector('[role=status]').innerText)")
            assert plain(quiz.reason) not in browser.text(".quiz")
    browser.until(f"{group}.querySelector('[role=status]').textContent.includes({json.dumps(plain(quiz.reason))})")
    assert "second attempt" in browser.text(".quiz [role=status]")
    assert browser.run(f"{group}.querySelectorAll('.right').length") == 1
    assert browser.run(f"{group}.querySelectorAll('.wrong').length") == 1
    press(browser, "]", "[")  # the answers stay
    browser.until(f"{TITLE}.startsWith('6.')")
    assert plain(quiz.reason) in browser.text(".quiz")


def test_a_sentence_opens_in_see_and_back_returns_to_its_place(browser: Browser, address: str) -> None:
    opened(browser, address, 9)
    link = "[...document.querySelectorAll('.open a')].find((one) => one.innerText.includes('The dog chased'))"
    browser.run(f"{link}.scrollIntoView()")
    place = browser.run("scrollY")
    assert place > 500
    browser.run(f"{link}.click()")
    browser.until("document.querySelector('figure canvas') !== null")
    assert browser.run("document.querySelector('header input[type=text]').value") == "The dog chased the ball."
    assert "kind=encoder" in browser.run("location.hash")
    browser.run("history.back()")
    browser.until(f"{TITLE} === '9. Heads and masks'")
    browser.until(f"Math.abs(scrollY - {place}) < 5")


def test_a_cell_and_an_experiment_open_too(browser: Browser, address: str) -> None:
    opened(browser, address, 6)
    link = "[...document.querySelectorAll('.open a')].find((one) => one.innerText.startsWith('Open in {}'))"
    browser.run(f"{link.format('Cell')}.click()")
    browser.until("document.querySelector('.cell[aria-busy=false]') !== null")
    assert browser.run("document.querySelector('header input[type=text]').value") == "I ate an apple."
    opened(browser, address, 6)
    browser.until(f"{link.format('Lab')} !== undefined")
    browser.run(f"{link.format('Lab')}.click()")
    browser.until(f"{TITLE} === 'memory-hops'")
    browser.run("history.back()")
    browser.until(f"{TITLE}.startsWith('6.')")


def test_code_is_copied(browser: Browser, address: str) -> None:
    opened(browser, address, 1)
    browser.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }; 0")
    browser.run("document.querySelector('.code button').click()")
    first = next(block for block in load_course().chapters[0].blocks if isinstance(block, CodeBlock))
    browser.until(f"window.copied === {json.dumps(first.code.rstrip())}")
    browser.until("document.querySelector('.code button').innerText === 'Copied'")


@pytest.mark.skipif(not AXE.exists(), reason="needs npm ci in studio")
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_and_nothing_overflows(browser: Browser, address: str, look: str) -> None:
    with browser.look(look) as width:
        for chapter in (0, 5, 7, 9):
            opened(browser, address, chapter)
            browser.run("for (const one of document.querySelectorAll('summary, .quiz button')) one.click(); 0")
            assert browser.run("document.documentElement.scrollWidth") <= width
            assert browser.violations() == []


def test_tab_reaches_everything(browser: Browser, address: str) -> None:
    opened(browser, address)
    assert browser.check_tour()
    opened(browser, address, 5)
    names = browser.check_tour()
    assert sum("Copy" in name for name in names) >= 3
