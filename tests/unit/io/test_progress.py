from dragoman.io.progress import ignore_progress, part_progress


class Reports(list[tuple[str, int, int | None, str]]):
    def __call__(self, what: str, done: int, total: int | None = None, unit: str = "") -> None:
        self.append((what, done, total, unit))


def test_a_part_reports_its_share_of_the_whole() -> None:
    reports = Reports()
    part_progress(reports, offset=10, whole=30)("align", 5, 10, "pairs")
    assert reports == [("align", 15, 30, "pairs")]


def test_a_part_of_an_unknown_whole_adds_the_offset_to_its_own_total() -> None:
    reports = Reports()
    part = part_progress(reports, offset=10)
    part("align", 5, 10)
    part("align", 6)
    assert reports == [("align", 15, 20, ""), ("align", 16, None, "")]


def test_a_part_can_have_another_name() -> None:
    reports = Reports()
    part_progress(reports, name="translate with a")("translate", 1, 2)
    assert reports == [("translate with a", 1, 2, "")]


def test_ignored_progress_has_no_effect() -> None:
    ignore_progress("read", 1)
